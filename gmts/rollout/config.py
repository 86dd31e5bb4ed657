"""Parameters of rollouts (`rollout:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """How responses are sampled in training, validation and evaluation alike."""

    group_size: Annotated[int, Ge(1), Doc("G: responses per question.")]
    temperature: Annotated[
        float, Gt(0), Doc("Sampling temperature T; log-probs and entropies are taken at T as well.")
    ]
    top_p: Annotated[
        float,
        Ge(1),
        Le(1),
        Doc("Only 1.0: a truncated support would make rollout and trainer log-probs disagree."),
    ]
    top_k: Annotated[int, Ge(0), Le(0), Doc("Only 0 (off), for the same reason.")]
    max_response_tokens: Annotated[int, Ge(1), Doc("A response is cut after this many tokens.")]
    batch_size: Annotated[int, Ge(1), Doc("Responses sampled side by side.")]
