r"""An own data source: is a sum even or odd?

data:
  source: custom
  task: parity
  custom: examples.parity:questions
rewards:
  scorer: custom
  custom: examples.parity:reward
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from gmts.rewards.extract import last_boxed

_SEEDS = {"train": 1, "validation": 2, "test": 3}
_QUESTIONS = 2000


def questions(split: str) -> Iterator[dict[str, Any]]:
    """Yield rows with `question`, `answer` and, if the scorer needs more, `meta`."""
    rng = random.Random(_SEEDS[split])
    for _ in range(_QUESTIONS):
        left, right = rng.randrange(1000), rng.randrange(1000)
        yield {
            "question": f"Is {left} + {right} even or odd?",
            "answer": "even" if (left + right) % 2 == 0 else "odd",
        }


def reward(response: str, ground_truth: str, meta: Mapping[str, Any]) -> bool:
    """Return whether the boxed answer is the right one."""
    del meta
    return last_boxed(response) == ground_truth
