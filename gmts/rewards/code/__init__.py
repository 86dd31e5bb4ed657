"""Verdicts on code: the solution runs in one sandbox, its tests in another."""
