"""Parameters of token selection (`selection:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Le
from typing_extensions import Doc

ScoreName = Literal["gmts", "ets", "logit_gradient", "advantage", "random", "none", "custom"]
Side = Literal["top", "bottom"]
Scope = Literal["batch", "group", "micro_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionConfig:
    """Which response tokens carry loss."""

    score: Annotated[
        ScoreName,
        Doc(
            "gmts: |omega| x entropy; ets: entropy; logit_gradient: |omega| x norm of the logit "
            "gradient; advantage: |omega|; random: a hash; none: every token; custom: see "
            "selection.custom."
        ),
    ]
    ratio: Annotated[float, Gt(0), Le(1), Doc("Share of the scope's response tokens to select.")]
    side: Annotated[
        Side, Doc("top: the largest scores; bottom: the eligible rest of top at 1 - ratio.")
    ]
    scope: Annotated[
        Scope,
        Doc(
            "batch: the whole optimizer mini-batch over micro-batches and ranks; group: each "
            "question alone; micro_batch: for comparison with other trainers only."
        ),
    ]
    score_policy: Annotated[
        Literal["current", "old"],
        Doc("Policy whose statistics are scored; old reuses the old-log-prob pass."),
    ]
    custom: Annotated[
        str | None, Doc("`module:function` of an own score, used when score is custom.")
    ]
