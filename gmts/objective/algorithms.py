"""The algorithms as combinations of options. A new one is one entry here."""

from dataclasses import dataclass
from typing import Literal

from gmts.objective.config import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSpec:
    """What sets an algorithm apart, its numbers (clip bounds, beta) aside."""

    ratio_level: Literal["token", "sequence"]
    """token: r of each token; sequence: one s_i, the geometric mean of r over the response."""
    aggregation: Literal["token_mean", "sequence_mean", "fixed_length"]
    """Base weight of a token: 1/N, 1/(responses * |o_i|), or 1/(responses * length limit)."""


ALGORITHMS: dict[Algorithm, AlgorithmSpec] = {
    # arXiv 2402.03300, equation 3
    "grpo": AlgorithmSpec(ratio_level="token", aggregation="sequence_mean"),
    # arXiv 2503.14476, equation 8
    "dapo": AlgorithmSpec(ratio_level="token", aggregation="token_mean"),
    # arXiv 2507.18071, equations 5 to 7 and the token form of section 4.3
    "gspo": AlgorithmSpec(ratio_level="sequence", aggregation="sequence_mean"),
    # arXiv 2503.20783
    "dr_grpo": AlgorithmSpec(ratio_level="token", aggregation="fixed_length"),
}
