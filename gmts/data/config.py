"""Parameters of data preparation (`data:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

Scalar = bool | int | float | str | None
TaskOption = Scalar | list[Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFiles:
    """Local files: parquet, JSON lines or a JSON array; .json and .jsonl may be gzipped."""

    train: Annotated[str | None, Doc("Training rows, when source is local.")]
    validation: Annotated[str | None, Doc("Validation rows; null: held out of train.")]
    test: Annotated[str | None, Doc("Test rows; null: held out of train (a named set only).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """The training rows' place on the Hugging Face Hub, when data.source is hub."""

    repo: Annotated[str | None, Doc("Id of the data set; null: the one that the set is known by.")]
    revision: Annotated[str | None, Doc("Commit, 40 hex digits; required when source is hub.")]
    files: Annotated[
        tuple[str, ...] | None, Doc("Patterns of the training files; null: the set's own.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Fields of own files, dotted where nested; used when data.set is null."""

    question: Annotated[str, Doc("The question.")]
    answer: Annotated[str, Doc("The answer, non-empty text.")]
    id: Annotated[str | None, Doc("A name that no two rows share; null: rows have none.")]
    sha256: Annotated[
        str | None,
        Doc("The sha256 of question, a newline, answer, which is checked; null: rows have none."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRows:
    """What the training files must hold; other data is refused."""

    rows: Annotated[int | None, Ge(1), Doc("Rows read, repetitions included; null: any.")]
    sha256: Annotated[
        str | None, Doc("Hash of the canonical rows, as the manifest shows it; null: any.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearConfig:
    """When questions of files are near one another, and what happens then (docs/data.md)."""

    overlap: Annotated[
        float, Gt(0), Le(1), Doc("Share of a long question's word 3-grams from which one is near.")
    ]
    similarity: Annotated[
        float, Gt(0), Le(1), Doc("Edit similarity in words from which a short question is near.")
    ]
    contaminated: Annotated[
        Literal["remove", "keep"], Doc("Rows near a question of a benchmark in data.decontaminate.")
    ]
    repeated: Annotated[
        Literal["remove", "keep"],
        Doc("Rows near an earlier row, with the same numbers, LaTeX commands and answer."),
    ]


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
        Literal["reasoning_gym", "hub", "local", "custom"],
        Doc(
            "reasoning_gym: a generated task; hub: a named set from the Hub; local: a named set or "
            "own rows from files; custom: own function."
        ),
    ]
    set: Annotated[
        Literal["math12k", "dapo17k", "kodcode", "kodcode_light_rl", "csqa"] | None,
        Doc("The named set whose form the rows have; null: own rows, read by data.fields."),
    ]
    task: Annotated[str, Doc("Name of the task, recorded as the rows' source without a set.")]
    task_options: Annotated[
        dict[str, TaskOption], Doc("Options of the reasoning-gym generator, e.g. min_terms: 3.")
    ]
    hub: Annotated[HubConfig, Doc("Files on the Hub.")]
    files: Annotated[SplitFiles, Doc("Local files.")]
    fields: Annotated[FieldNames, Doc("Fields of own files.")]
    expected: Annotated[ExpectedRows, Doc("What the training files must hold.")]
    bad_rows: Annotated[
        Literal["refuse", "skip"],
        Doc("A broken row of a file stops the stage, or is left out, counted and listed."),
    ]
    decontaminate: Annotated[
        tuple[str, ...],
        Doc("Benchmarks, NAME=PATH, whose questions train and validation must not hold."),
    ]
    near: Annotated[NearConfig, Doc("Near questions.")]
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
