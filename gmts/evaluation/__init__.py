"""Scores of a checkpoint: lm-eval tasks, average@k, pass@k and their intervals."""
