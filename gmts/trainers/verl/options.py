"""Our options inside verl's configuration: `+actor_rollout_ref.gmts.*`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from gmts.imports import load_function
from gmts.objective.config import ObjectiveConfig
from gmts.rewards.config import OverlongConfig
from gmts.selection.config import SelectionConfig

if TYPE_CHECKING:
    from gmts.trainers.update.plan import PlanSettings

NODE = "actor_rollout_ref.gmts"

ESTIMATORS = {1: "gmts_group", 0: "gmts_group_population"}
"""algorithm.adv_estimator by objective.std_ddof."""

REWARD_FUNCTION = ("pkg://gmts.trainers.verl.questions", "judge")
"""reward.custom_reward_function.{path,name}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlOptions:
    """What our worker and trainer need besides verl's own configuration."""

    objective: ObjectiveConfig
    selection: SelectionConfig
    overlong: OverlongConfig
    seed: int
    max_response_tokens: Annotated[int, Ge(1)]
    skip_no_signal: bool
    max_batches: Annotated[int, Ge(1)]
    """Rollout batches per step before training gives up; train.dynamic_sampling.max_batches."""
    dump_dir: str | None
    """Where every rank writes what it selected from at each optimizer step; None: nowhere."""

    def settings(self) -> "PlanSettings":
        """Return the settings of a step, an own score imported and checked.

        Raises:
            ValueError: If selection.custom cannot be imported or called.
        """
        from gmts.trainers.update.plan import PlanSettings  # noqa: PLC0415  (loads torch)

        custom = None
        if self.selection.score == "custom":
            custom = load_function("selection.custom", str(self.selection.custom), 2)
        return PlanSettings(
            objective=self.objective,
            selection=self.selection,
            seed=self.seed,
            max_response_tokens=self.max_response_tokens,
            custom_score=custom,
        )


def shared_keys() -> list[str]:
    """Return the dotted keys that params.yaml and the options share."""
    objective = [f"objective.{field.name}" for field in fields(ObjectiveConfig)]
    selection = [f"selection.{field.name}" for field in fields(SelectionConfig)]
    return ["seed", *objective, *selection]


def to_overrides(options: VerlOptions) -> list[str]:
    """Return the options as Hydra overrides."""
    return [f"+{NODE}.{key}={json.dumps(value)}" for key, value in _leaves(asdict(options))]


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{rest}", leaf) for rest, leaf in _leaves(value))
        else:
            yield key, value


def from_config(node: Mapping[str, Any] | None) -> VerlOptions:
    """Return the options behind the plain content of `actor_rollout_ref.gmts`.

    Raises:
        ValueError: If there is none, a key is unknown or missing, or a value is out of range.
    """
    if node is None:
        raise ValueError(f"{NODE} must be given with the trainer of gmts, got nothing")
    try:
        return TypeAdapter(VerlOptions).validate_python(_strict(node))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{NODE}.{key}: {first['msg']}, got {first['input']!r}") from error


def _strict(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the node with unknown keys refused, which dataclasses would let pydantic drop."""
    known = {
        "": VerlOptions.__dataclass_fields__,
        "objective": ObjectiveConfig.__dataclass_fields__,
        "selection": SelectionConfig.__dataclass_fields__,
        "overlong": OverlongConfig.__dataclass_fields__,
    }
    for name, names in known.items():
        part = node if not name else node.get(name, {})
        for key in part:
            if key not in names:
                place = f"{NODE}.{name}.{key}" if name else f"{NODE}.{key}"
                raise ValueError(f"{place} must be one of {', '.join(names)}, got {key!r}")
    return node
