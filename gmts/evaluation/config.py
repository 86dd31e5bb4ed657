"""Parameters of evaluation (`evaluate:` and `benchmarks:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

BenchmarkName = Literal[
    "aime24",
    "aime25",
    "amc23",
    "math500",
    "minerva",
    "olympiadbench",
    "csqa",
    "csqa2",
    "humaneval",
    "mbpp",
    "livecodebench",
    "bigcodebench",
    "bigcodebench_hard",
]
"""The benchmarks that have a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkConfig:
    """Where a benchmark's rows come from, and how they are answered."""

    path: Annotated[
        str | None, Doc("Local file, or folder with the benchmark's files; null: from the Hub.")
    ]
    repo: Annotated[str | None, Doc("Id on the Hub; null: the one that the benchmark is known by.")]
    revision: Annotated[
        str | None, Doc("Commit on the Hub, 40 hex digits; required without path, else null.")
    ]
    files: Annotated[
        tuple[str, ...] | None, Doc("Patterns of files on the Hub; null: the benchmark's own.")
    ]
    rows: Annotated[int | None, Ge(1), Doc("Rows that it must have; null: any.")]
    sha256: Annotated[
        str | None, Doc("Hash of the canonical rows, as its manifest shows it; null: any.")
    ]
    greedy: Annotated[
        bool | None,
        Doc(
            "One response, of the most probable tokens, in place of evaluate.samples sampled; "
            "null: of code benchmarks only."
        ),
    ]
    custom: Annotated[
        str | None,
        Doc("`module:function` of an own scorer; null: verdicts of the benchmark's kind."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateConfig:
    """How a checkpoint is scored on the test split and on benchmarks."""

    samples: Annotated[int, Ge(1), Doc("k of average@k: responses per question.")]
    pass_at: Annotated[tuple[int, ...], Doc("The k of each pass@k; none above samples.")]
    temperature: Annotated[float, Gt(0), Doc("Sampling temperature of the score.")]
    max_response_tokens: Annotated[int, Ge(1), Doc("A response is cut after this many tokens.")]
    batch_size: Annotated[int, Ge(1), Doc("Responses sampled side by side.")]
    seed: Annotated[int, Ge(0), Doc("Seed of the sampled responses.")]
    bootstrap_samples: Annotated[int, Ge(100), Doc("Resamples of the questions.")]
    confidence: Annotated[float, Gt(0), Lt(1), Doc("Level of the bootstrap interval.")]
    truncated_warning: Annotated[
        float, Ge(0), Le(1), Doc("Warn when a larger share of responses was cut.")
    ]
    question_limit: Annotated[
        int | None, Ge(1), Doc("Score only the first questions of each; null: all of them.")
    ]
