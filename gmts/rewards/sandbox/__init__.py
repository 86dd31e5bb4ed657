"""Programs in isolation: namespaces, limits, and an end that leaves nothing behind."""
