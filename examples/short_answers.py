r"""An own reward: right answers earn more the shorter they are.

    rewards:
      scorer: custom
      custom: examples.short_answers:reward

The verdict stays apart from the score: dynamic sampling and accuracy look at `correct` alone.
"""

from collections.abc import Mapping
from typing import Any

from gmts.rewards.extract import last_boxed
from gmts.rewards.verdict import Verdict

_FREE_CHARACTERS = 40
_PENALTY_PER_CHARACTER = 0.005


def reward(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
    """Return 1 for a right answer, less a little per character beyond 40; 0 for a wrong one."""
    del meta
    answer = last_boxed(response)
    correct = answer == ground_truth
    excess = max(0, len(response) - _FREE_CHARACTERS)
    return Verdict(
        correct=correct,
        score=max(0.1, 1.0 - _PENALTY_PER_CHARACTER * excess) if correct else 0.0,
        reason="right" if correct else "wrong",
        extracted=answer,
        seconds=0.0,
    )
