"""verl on a machine without accelerator, and sampling with our own sampler."""
