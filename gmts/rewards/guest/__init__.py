"""What runs inside the sandboxes; the standard library only."""
