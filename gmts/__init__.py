"""gmts: reinforcement learning from verifiable rewards on the tokens that carry the gradient."""

__version__ = "0.1.0"
