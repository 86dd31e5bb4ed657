"""Trainers: the readable standalone one, and the warm start before it."""
