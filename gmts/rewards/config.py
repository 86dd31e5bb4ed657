"""Parameters of rewards (`rewards:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class MathConfig:
    """Verdicts on mathematics."""

    require_box: Annotated[
        bool, Doc("Only an answer in \\boxed{} or \\fbox{} counts, no `Answer: X`.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlongConfig:
    """DAPO's soft overlong punishment; advantages alone see it."""

    buffer_tokens: Annotated[
        int | None,
        Ge(1),
        Doc(
            "Over the last so many tokens before rollout.max_response_tokens the reward falls "
            "linearly; null: off. Verdicts, accuracy and dynamic sampling never see it."
        ),
    ]
    factor: Annotated[
        float, Gt(0), Doc("What a response of rollout.max_response_tokens loses; with a buffer.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConfig:
    """The processes that judge mathematics and choices."""

    workers: Annotated[int, Ge(1), Doc("Processes.")]
    deadline_s: Annotated[
        float,
        Gt(0),
        Doc("CPU seconds of one verdict, and half of its wall-clock limit; then it is a timeout."),
    ]
    memory_mib: Annotated[int, Ge(512), Doc("Address space of one process, in MiB.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardsConfig:
    """How a response is judged."""

    scorer: Annotated[
        Literal["reasoning_gym", "math", "choice", "code", "custom"],
        Doc(
            "reasoning_gym: the task's own scorer, full credit only; math: a short answer; choice: "
            "an option or yes/no; code: a program, by its "
            "tests in a sandbox; custom: own function. docs/rewards.md says what is judged how."
        ),
    ]
    answer: Annotated[
        Literal["boxed", "first_line"],
        Doc(
            "Where the answer of reasoning_gym and custom stands: the last \\boxed{...}, or the "
            "response's first line."
        ),
    ]
    custom: Annotated[
        str | None, Doc("`module:function` of an own scorer, used when scorer is custom.")
    ]
    math: Annotated[MathConfig, Doc("Verdicts on mathematics.")]
    overlong: Annotated[OverlongConfig, Doc("Soft overlong punishment.")]
    pool: Annotated[PoolConfig, Doc("The processes that judge mathematics and choices.")]
