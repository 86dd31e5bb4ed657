"""Parameters of rewards (`rewards:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardsConfig:
    """How a response is judged."""

    scorer: Annotated[
        Literal["reasoning_gym", "custom"],
        Doc("reasoning_gym: the task's own scorer, full credit only; custom: own function."),
    ]
    answer: Annotated[
        Literal["boxed", "first_line"],
        Doc("Where the answer stands: the last \\boxed{...}, or the response's first line."),
    ]
    custom: Annotated[
        str | None, Doc("`module:function` of an own scorer, used when scorer is custom.")
    ]
