"""Parameters of data preparation (`data:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

Scalar = bool | int | float | str | None
TaskOption = Scalar | list[Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFiles:
    """Local files (parquet or JSON lines), used when data.source is local."""

    train: Annotated[str | None, Doc("Training rows.")]
    validation: Annotated[str | None, Doc("Validation rows; null: held out of train.")]
    test: Annotated[str | None, Doc("Test rows.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSeeds:
    """Generator seeds of a reasoning-gym task.

    Item i of a task is drawn from seed + i, so nearby seeds give shifted copies of one another:
    keep them further apart than any split is long.
    """

    train: Annotated[int, Ge(0), Doc("Seed of the training rows.")]
    validation: Annotated[int, Ge(0), Doc("Seed of the validation rows.")]
    test: Annotated[int, Ge(0), Doc("Seed of the test rows.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """Where questions come from and what a prompt looks like."""

    source: Annotated[
        Literal["reasoning_gym", "local", "custom"],
        Doc("reasoning_gym: a generated task; local: own files; custom: own function."),
    ]
    task: Annotated[str, Doc("Name of the task, recorded as the rows' source.")]
    task_options: Annotated[
        dict[str, TaskOption], Doc("Options of the reasoning-gym generator, e.g. min_terms: 3.")
    ]
    files: Annotated[SplitFiles, Doc("Local files.")]
    custom: Annotated[
        str | None, Doc("`module:function` yielding rows for a split, used when source is custom.")
    ]
    seeds: Annotated[SplitSeeds, Doc("Generator seeds.")]
    train_rows: Annotated[int, Ge(1), Doc("Rows wanted in train.")]
    validation_rows: Annotated[int, Ge(1), Doc("Rows wanted in validation.")]
    test_rows: Annotated[int, Ge(1), Doc("Rows wanted in test.")]
    system_prompt: Annotated[str | None, Doc("System message before every question; null: none.")]
    user_prompt: Annotated[
        str,
        Doc("The user message; {question} and the task's own fields are filled in."),
    ]
    vocabulary_size: Annotated[
        int, Ge(32), Doc("Upper limit of the tokenizer's vocabulary, where one is built.")
    ]
    max_prompt_tokens: Annotated[
        int, Ge(1), Doc("Longer prompts are dropped here, and counted, never during training.")
    ]
