"""Prefect flows around the stages of gmts."""
