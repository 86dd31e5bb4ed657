"""Worked solutions of generated tasks, right or with slips, for the warm start."""

import random
from collections.abc import Callable, Mapping
from typing import Any

_SLIPS = (-3, -2, -1, 1, 2, 3)


def worked_solution(
    meta: Mapping[str, Any], *, slip_probability: float, rng: random.Random
) -> str | None:
    r"""Return a worked solution of a task that ends with \boxed{answer}; None if none is known.

    Args:
        meta: The task's own entry; `metadata.source_dataset` names the task.
        slip_probability: Chance that a step's result is off by one to three; the answer follows.
        rng: Source of the slips.
    """
    writer = _WRITERS.get(str(meta.get("metadata", {}).get("source_dataset")))
    return None if writer is None else writer(meta, slip_probability, rng)


def _chain_sum(meta: Mapping[str, Any], slip_probability: float, rng: random.Random) -> str:
    terms = str(meta["metadata"]["expression"]).split()
    total = int(terms[0])
    lines = []
    for operator, term in zip(terms[1::2], terms[2::2], strict=True):
        result = total + int(term) if operator == "+" else total - int(term)
        if rng.random() < slip_probability:
            result += rng.choice(_SLIPS)
        lines.append(f"{total}{operator}{term}={result}")
        total = result
    return "\n".join([*lines, f"\\boxed{{{total}}}"])


_WRITERS: dict[str, Callable[[Mapping[str, Any], float, random.Random], str]] = {
    "chain_sum": _chain_sum,
}
