"""Verifiable tasks: sources, prompts, splits and the manifest that describes them."""
