"""The `gmts` command. Engines are imported only by the commands that need them."""

from gmts.cli.main import app, main

__all__ = ["app", "main"]
