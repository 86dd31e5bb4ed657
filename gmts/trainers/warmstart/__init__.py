"""Supervised warm start of a tiny policy built from nothing."""
