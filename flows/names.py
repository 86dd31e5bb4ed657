"""The stages, in order."""

STAGES = ("prepare", "warmstart", "train", "evaluate", "report", "publish")
