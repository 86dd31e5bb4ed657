r"""An own token score: how surprised the policy was, times the coefficient of the gradient.

selection:
  score: custom
  custom: examples.surprise:score
"""

from torch import Tensor

from gmts.batch import TokenStats


def score(stats: TokenStats, omega: Tensor) -> Tensor:
    """Return |omega| times -log p of the sampled token, [B, T]; tokens with 0 are not eligible."""
    return omega.abs() * -stats.log_probs
