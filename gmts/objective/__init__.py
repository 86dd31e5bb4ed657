"""Policy objectives: advantages, surrogate losses, their coefficients and weights."""
