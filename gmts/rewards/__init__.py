"""Verdicts on responses."""
