"""The benchmarks that have a task: what their rows ask and how they are judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gmts.data.manifest import rows_hash
from gmts.data.questions import Question
from gmts.data.records import (
    BadRowError,
    BadRows,
    Record,
    field_text,
    field_value,
    read_records,
)
from gmts.data.rows import Row
from gmts.data.sets.benchmarks import benchmark_question, files_of
from gmts.data.sets.choice import CSQA
from gmts.evaluation.code_questions import (
    CODE_SYSTEM_PROMPT,
    bigcodebench_meta,
    bigcodebench_program,
    bigcodebench_question,
    evalplus_meta,
    evalplus_program,
    humaneval_question,
    mbpp_question,
)
from gmts.evaluation.config import BenchmarkConfig, BenchmarkName
from gmts.evaluation.contest_questions import contest_meta, contest_question, in_window
from gmts.rewards.code import bigcodebench, evalplus
from gmts.rewards.extract import last_boxed

SYSTEM_PROMPT = r"Please reason step by step, and put your final answer within \boxed{}."
"""Of mathematics and commonsense. Source: arXiv 2608.30632, appendix on prompts."""

_MINERVA_REL_TOL = 1e-4
"""Of measured and rounded answers. Source: QwenLM/Qwen2.5-Math, evaluation/grader.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What gmts has to know of a benchmark."""

    kind: Literal["math", "choice", "code"]
    """The scorer (a value of rewards.scorer) that judges its rows."""
    answer: Callable[[Record], str]
    """Returns a row's ground truth, or raises BadRowError."""
    question: Callable[[str, Record], str] = benchmark_question
    system_prompt: str = SYSTEM_PROMPT
    meta: Callable[[Record], dict[str, Any]] = field(default=lambda record: {})
    """Returns what the scorer needs besides the ground truth."""
    wanted: Callable[[Record], bool] = lambda record: True
    """Whether a row of the files is of the benchmark."""
    tests_stay: bool = False
    """Tests are too large for a row: its meta.tests_at names their place, FILE:LINE."""
    check: Callable[[], None] = lambda: None
    """Raises ValueError where something that its verdicts need is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRows:
    """The rows of a benchmark, and where they are from."""

    rows: list[Row]
    rows_sha256: str
    """Of the canonical rows."""
    files: dict[str, str]
    """File, as params.yaml or the repository names it -> sha256."""
    hub: Mapping[str, str] | None
    """Repository and revision; None for a local file."""


def _integer(record: Record) -> str:
    """AIME: an integer of up to three digits, in some releases with leading zeros."""
    text = _number(record)
    if not text.isdecimal():
        raise BadRowError(f"answer must be a whole number, got {text!r:.80}")
    return str(int(text))


def _number(record: Record) -> str:
    """AMC: a number, which some releases give as a float."""
    value = field_value(record, "answer")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return field_text(record, "answer").strip()


def _text(record: Record) -> str:
    return field_text(record, "answer").strip()


def _minerva(record: Record) -> str:
    """The answer, or the last box of the worked solution where a release has no answers."""
    if field_value(record, "answer") is not None:
        return _text(record)
    found = last_boxed(field_text(record, "solution"))
    if not found:
        raise BadRowError("solution must hold the answer in \\boxed{}, got none")
    return found


def _olympiad(record: Record) -> str:
    answers = field_value(record, "final_answer")
    if not isinstance(answers, list) or not answers:
        raise BadRowError(f"final_answer must be a list of answers, got {answers!r:.80}")
    if not all(isinstance(answer, str) and answer.strip() for answer in answers):
        raise BadRowError(f"final_answer must hold non-empty texts, got {answers!r:.80}")
    return ", ".join(answer.strip() for answer in answers)


def _olympiad_meta(record: Record) -> dict[str, Any]:
    names = ("id", "answer_type", "is_multiple_answer", "unit", "error")
    return {"metadata": {name: field_value(record, name) for name in names}}


def _csqa(record: Record) -> Question:
    return CSQA.normalise(record, CSQA.fields)


def _yes_no(record: Record) -> str:
    answer = _text(record).lower()
    if answer not in ("yes", "no"):
        raise BadRowError(f"answer must be yes or no, got {answer!r:.80}")
    return answer


_BIGCODEBENCH = Benchmark(
    kind="code",
    answer=bigcodebench_program,
    question=bigcodebench_question,
    system_prompt=CODE_SYSTEM_PROMPT,
    meta=bigcodebench_meta,
    check=bigcodebench.check_installed,
)

BENCHMARKS: Mapping[BenchmarkName, Benchmark] = {
    "aime24": Benchmark(kind="math", answer=_integer),
    "aime25": Benchmark(kind="math", answer=_integer),
    "amc23": Benchmark(kind="math", answer=_number),
    "math500": Benchmark(kind="math", answer=_text),
    "minerva": Benchmark(
        kind="math",
        answer=_minerva,
        meta=lambda record: {"rel_tol": _MINERVA_REL_TOL},
    ),
    "olympiadbench": Benchmark(
        kind="math",
        answer=_olympiad,
        meta=_olympiad_meta,
    ),
    "csqa": Benchmark(
        kind="choice",
        answer=lambda record: _csqa(record).answer,
        question=lambda name, record: _csqa(record).question,
        meta=lambda record: _csqa(record).meta,
    ),
    "csqa2": Benchmark(kind="choice", answer=_yes_no),
    "humaneval": Benchmark(
        kind="code",
        answer=evalplus_program,
        question=humaneval_question,
        system_prompt=CODE_SYSTEM_PROMPT,
        meta=lambda record: evalplus_meta("humaneval", record),
        check=evalplus.check_installed,
    ),
    "mbpp": Benchmark(
        kind="code",
        answer=evalplus_program,
        question=mbpp_question,
        system_prompt=CODE_SYSTEM_PROMPT,
        meta=lambda record: evalplus_meta("mbpp", record),
        check=evalplus.check_installed,
    ),
    "livecodebench": Benchmark(
        kind="code",
        answer=lambda record: field_text(record, "question_id"),
        question=contest_question,
        system_prompt=CODE_SYSTEM_PROMPT,
        meta=contest_meta,
        wanted=in_window,
        tests_stay=True,
    ),
    "bigcodebench": _BIGCODEBENCH,
    "bigcodebench_hard": _BIGCODEBENCH,
}
"""By the keys of `benchmarks`."""


def read_rows_of(name: BenchmarkName, config: BenchmarkConfig, root: Path) -> BenchmarkRows:
    """Return a benchmark's rows, every one of them asked once.

    Args:
        name: A key of `BENCHMARKS`.
        config: Where they lie and what they must be.
        root: What a relative path is relative to.

    Raises:
        ValueError: If a file or a row cannot be read, a question is there twice, or the rows are
            not the expected.
        OSError: If the Hub cannot be reached.
    """
    benchmark, key = BENCHMARKS[name], f"benchmarks.{name}"
    files = files_of(name, config, root)
    rows: list[Row] = []
    places: dict[str, str] = {}
    for path in files.paths.values():
        if benchmark.tests_stay and not path.name.endswith((".jsonl", ".jsonl.gz")):
            raise ValueError(f"{key} must have JSON lines, named .jsonl or .jsonl.gz, got {path}")
        for place, record in read_records(path, f"{key}.path", BadRows(policy="refuse")):
            try:
                if not benchmark.wanted(record):
                    continue
                row = _row(name, benchmark, record, len(rows) + 1)
            except BadRowError as error:
                raise ValueError(f"{place}: {error} (benchmark {name})") from error
            first = places.setdefault(row.messages[-1]["content"], place)
            if first != place:
                # Some files repeat each question for samples; average@k would ask k of each.
                raise ValueError(
                    f"{key} must ask each question once: {place} repeats {first}; "
                    "evaluate.samples says how often a question is answered"
                )
            rows.append(row)
    found = rows_hash(rows)  # wherever the files lie
    if benchmark.tests_stay:
        rows = [
            replace(row, meta=row.meta | {"tests_at": places[row.messages[-1]["content"]]})
            for row in rows
        ]
    _check_expected(key, config, len(rows), found)
    return BenchmarkRows(
        rows=rows,
        rows_sha256=found,
        files=files.sha256(),
        hub=files.hub,
    )


def _row(name: str, benchmark: Benchmark, record: Record, number: int) -> Row:
    return Row(
        id=f"{name}-{number}",
        messages=(
            {"role": "system", "content": benchmark.system_prompt},
            {"role": "user", "content": benchmark.question(name, record)},
        ),
        ground_truth=benchmark.answer(record),
        source=name,
        meta={"kind": benchmark.kind, **benchmark.meta(record)},
        solution=None,
    )


def _check_expected(key: str, config: BenchmarkConfig, rows: int, sha256: str) -> None:
    if not rows:
        raise ValueError(f"{key} must have at least one row, got none")
    if config.rows not in (None, rows):
        raise ValueError(f"{key}.rows must be the rows of its files ({rows}), got {config.rows}")
    if config.sha256 not in (None, sha256):
        raise ValueError(
            f"{key}.sha256 must be the hash of its rows ({sha256}), got {config.sha256}: the files "
            "are not those that the pin was made of"
        )
