"""Exit codes of `gmts.trainers.verl.entry`, for who must not import verl to know them."""

NO_SIGNAL = 4
"""The data gives no signal."""
