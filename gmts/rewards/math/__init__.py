"""Verdicts on short mathematical answers."""
