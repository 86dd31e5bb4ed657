"""The tree of params.yaml, assembled from the sections of every layer."""

from typing import Annotated

from annotated_types import Ge
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as validated_dataclass
from typing_extensions import Doc

from gmts.data.config import DataConfig
from gmts.evaluation.config import BenchmarkConfig, BenchmarkName, EvaluateConfig
from gmts.models.config import ModelConfig
from gmts.objective.config import ObjectiveConfig
from gmts.publishing.config import PublishConfig
from gmts.rewards.config import RewardsConfig
from gmts.rollout.config import RolloutConfig
from gmts.selection.config import SelectionConfig
from gmts.trainers.config import (
    RuntimeConfig,
    TrackingConfig,
    TrainConfig,
    VerlConfig,
    WarmstartConfig,
)

SCHEMA_VERSION = 1
"""Version of params.yaml, checkpoints and manifests; raised when an old file would be misread."""


# pydantic hands this configuration down to the plain dataclasses inside.
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@validated_dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Params:
    """One complete experiment. Every key is required; nothing has a hidden default."""

    schema_version: Annotated[int, Doc("Version of this file's layout.")]
    preset: Annotated[str, Doc("Preset in configs/ that this experiment started from.")]
    name: Annotated[str, Doc("Name of the run: folder of the published model, title of reports.")]
    seed: Annotated[int, Ge(0), Doc("Seed of everything that is drawn.")]
    model: Annotated[ModelConfig, Doc("The policy.")]
    data: Annotated[DataConfig, Doc("Questions and prompts.")]
    rewards: Annotated[RewardsConfig, Doc("Verdicts.")]
    warmstart: Annotated[WarmstartConfig, Doc("Supervised start of a tiny model.")]
    rollout: Annotated[RolloutConfig, Doc("Sampling.")]
    objective: Annotated[ObjectiveConfig, Doc("What is maximised.")]
    selection: Annotated[SelectionConfig, Doc("Which tokens carry loss.")]
    train: Annotated[TrainConfig, Doc("The training loop.")]
    verl: Annotated[VerlConfig, Doc("What backend verl needs beyond train.")]
    tracking: Annotated[TrackingConfig, Doc("Where metrics go.")]
    evaluate: Annotated[EvaluateConfig, Doc("Scores.")]
    benchmarks: Annotated[
        dict[BenchmarkName, BenchmarkConfig],
        Doc("Benchmarks to score besides the test split, by name; docs/evaluation.md lists them."),
    ]
    publish: Annotated[PublishConfig, Doc("The published folder.")]
    runtime: Annotated[RuntimeConfig, Doc("The machine.")]


@validated_dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Judging:
    """The part of an experiment that verdicts depend on, as results record it."""

    rewards: RewardsConfig


STAGE_SECTIONS: dict[str, tuple[str, ...]] = {
    "prepare": ("schema_version", "model", "data", "benchmarks"),
    "warmstart": ("schema_version", "seed", "model", "warmstart", "runtime"),
    "train": (
        "schema_version",
        "seed",
        "model",
        "rewards",
        "rollout",
        "objective",
        "selection",
        "train",
        "verl",
        "tracking",
        "runtime",
    ),
    # Before evaluate, which is the last stage of `gmts evaluate`; neither reads the other.
    "benchmark": ("schema_version", "model", "rewards", "evaluate", "benchmarks", "runtime"),
    "evaluate": ("schema_version", "model", "rewards", "evaluate", "runtime"),
    "report": ("schema_version", "preset", "name", "benchmarks"),
    "publish": tuple(Params.__dataclass_fields__),  # the card and the manifest show all of it
}
"""Sections that each stage reads; dvc.yaml lists the same, and a test compares the two."""
