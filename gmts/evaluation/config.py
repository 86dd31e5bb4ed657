"""Parameters of evaluation (`evaluate:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateConfig:
    """How a checkpoint is scored on the test split."""

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
        int | None, Ge(1), Doc("Score only the first questions; null: all of them.")
    ]
