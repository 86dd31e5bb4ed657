"""The standalone trainer: one process, every step in plain sight."""
