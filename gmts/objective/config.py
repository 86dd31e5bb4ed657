"""Parameters of the policy objective (`objective:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

Algorithm = Literal["grpo", "dapo", "gspo", "dr_grpo"]
Denominator = Literal["selected", "eligible", "all", "group_selected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveConfig:
    """What is maximised. The formulas are in docs/objective.md."""

    algorithm: Annotated[
        Algorithm,
        Doc("Named combination of ratio level and aggregation; see docs/objective.md."),
    ]
    clip_ratio_low: Annotated[
        float, Ge(0), Doc("eps1: the importance ratio is clipped below at 1 - eps1.")
    ]
    clip_ratio_high: Annotated[
        float, Ge(0), Doc("eps2: the importance ratio is clipped above at 1 + eps2.")
    ]
    dual_clip: Annotated[
        float | None,
        Gt(1),
        Doc("c: for A < 0 the loss stops growing where the ratio exceeds c; null: off."),
    ]
    beta: Annotated[
        float,
        Ge(0),
        Doc("Weight of the k3 KL penalty to the initial policy; 0 loads no reference."),
    ]
    normalize_by_std: Annotated[
        bool, Doc("Divide group advantages by the group's standard deviation (Dr. GRPO: false).")
    ]
    std_ddof: Annotated[
        Literal[0, 1],
        Doc("Degrees of freedom of that deviation: 1 sample (verl, TRL), 0 population."),
    ]
    denominator: Annotated[
        Denominator, Doc("Which tokens normalise the weights of the selected ones.")
    ]
    mask_kl: Annotated[
        bool,
        Doc("true: the selection mask multiplies the KL term too, and KL is part of the score."),
    ]
    kl_zero_tolerance: Annotated[
        float, Ge(0), Doc("|log(pi_ref / pi)| below this counts as no KL signal (nats).")
    ]
    overlong_filter: Annotated[
        bool, Doc("Leave responses that were cut at the length limit out of the loss.")
    ]
    rollout_is: Annotated[
        Literal["token"] | None,
        Doc(
            "token: the policy term of each token counts min(pi_old / pi_rollout, C) times, since "
            "the rollout engine's probabilities are not quite the trainer's; null: off."
        ),
    ]
    rollout_is_threshold: Annotated[
        float, Ge(1), Doc("C: those weights are truncated here; read with rollout_is only.")
    ]
