"""What every trainer does around an optimizer step, whatever engine computes the gradients."""
