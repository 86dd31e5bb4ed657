"""Model folders: loading, saving, hashing, and the prompt template."""
