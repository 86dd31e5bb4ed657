"""Turning a trained policy into a folder that others can load and trace."""
