"""Training questions that benchmarks hold, and training questions that repeat one another."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gmts.data.config import NearConfig
from gmts.data.questions import Question, question_hash
from gmts.data.records import BadRowError, BadRows, read_records
from gmts.data.sets.benchmarks import benchmark_question
from gmts.data.similarity import (
    LONG_WORDS,
    NGRAM,
    Match,
    NearIndex,
    Words,
    compared_words,
    particulars,
)

_SUSPECTED_OVERLAP = 0.6
_SUSPECTED_SIMILARITY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The questions of a benchmark."""

    name: str
    path: str
    """Of the file, as params.yaml or the Hub names it."""
    questions: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A training question that is near a benchmark's."""

    row: str
    """Hash of the training question."""
    question: str
    benchmark_row: int
    """From 1."""
    benchmark_question: str
    similarity: float
    measure: str


@dataclass(slots=True, kw_only=True)
class BenchmarkFindings:
    """What was found of one benchmark in one pool."""

    file: str
    questions: int
    near_rows: int = 0
    """Training rows at or above the thresholds."""
    near_questions: int = 0
    """Questions of the benchmark that such a row is near."""
    near: list[Finding] = field(default_factory=list)
    suspected: list[Finding] = field(default_factory=list)
    """Below the thresholds, but not far: never removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """A training question that is near an earlier one."""

    row: str
    question: str
    first: str
    """The earlier question, which stays."""
    similarity: float


def read_benchmark(entry: str, root: Path) -> Benchmark:
    """Return the benchmark that an entry NAME=PATH of data.decontaminate names.

    Raises:
        ValueError: If the entry has another form, or the file or a row cannot be read.
    """
    name, equals, path = entry.partition("=")
    if not name or not equals or not path:
        raise ValueError(f"data.decontaminate must list NAME=PATH, got {entry!r}")
    return read_questions(name, {path: root / path}, "data.decontaminate")


def read_questions(name: str, files: Mapping[str, Path], key: str) -> Benchmark:
    """Return the questions of a benchmark's files.

    Args:
        name: Of the benchmark.
        files: By the names that params.yaml or the Hub has for them.
        key: Of params.yaml, that names them.

    Raises:
        ValueError: If a file or a row cannot be read.
    """
    bad = BadRows(policy="refuse")
    questions = []
    for path in files.values():
        for place, record in read_records(path, key, bad):
            try:
                questions.append(benchmark_question(name, record))
            except BadRowError as error:
                raise ValueError(f"{place}: {error} (benchmark {name})") from error
    return Benchmark(name=name, path=", ".join(files), questions=questions)


def decontaminated(
    questions: Sequence[Question], benchmarks: Sequence[Benchmark], config: NearConfig
) -> tuple[list[Question], dict[str, BenchmarkFindings]]:
    """Return the questions that are near no benchmark's (all with contaminated: keep), and why.

    Args:
        questions: Rows that may become train or validation.
        benchmarks: What they must not hold.
        config: Thresholds, and whether to remove.
    """
    words = [compared_words(question.compared_text) for question in questions]
    near: set[int] = set()
    findings = {}
    for benchmark in benchmarks:
        findings[benchmark.name], rows = _search(benchmark, questions, words, config)
        near |= rows
    if config.contaminated == "keep":
        return list(questions), findings
    return [question for i, question in enumerate(questions) if i not in near], findings


def _search(
    benchmark: Benchmark,
    questions: Sequence[Question],
    words: Sequence[Words],
    config: NearConfig,
) -> tuple[BenchmarkFindings, set[int]]:
    index = NearIndex(
        [compared_words(question) for question in benchmark.questions],
        overlap=min(config.overlap, _SUSPECTED_OVERLAP),
        similarity=min(config.similarity, _SUSPECTED_SIMILARITY),
    )
    found = BenchmarkFindings(file=benchmark.path, questions=len(benchmark.questions))
    rows: set[int] = set()
    held: set[int] = set()
    for number, text in enumerate(words):
        for match in index.find(text):
            near = match.similarity >= _threshold(match, config)
            (found.near if near else found.suspected).append(
                Finding(
                    row=question_hash(questions[number].question),
                    question=questions[number].question,
                    benchmark_row=match.reference + 1,
                    benchmark_question=benchmark.questions[match.reference],
                    similarity=round(match.similarity, 4),
                    measure=match.measure,
                )
            )
            if near:
                rows.add(number)
                held.add(match.reference)
    found.near_rows, found.near_questions = len(rows), len(held)
    return found, rows


def _threshold(match: Match, config: NearConfig) -> float:
    return config.overlap if match.measure == "ngrams" else config.similarity


def without_repetitions(
    questions: Sequence[Question], config: NearConfig, *, answer_is_text: bool
) -> tuple[list[Question], list[Repetition]]:
    """Return the questions that repeat no earlier one (all with repeated: keep), and the others.

    A question repeats another that is near it, holds the same numbers and LaTeX commands, and,
    where answers are text, has the same answer: variants of a problem are problems of their own.
    """
    words = [compared_words(question.compared_text) for question in questions]
    index = NearIndex(words, overlap=config.overlap, similarity=config.similarity, both_ways=True)
    kept: list[Question] = []
    repetitions = []
    gone: set[int] = set()
    for number, question in enumerate(questions):
        for match in index.find(words[number], before=number):
            if match.reference in gone:
                continue
            first = questions[match.reference]
            same_answer = not answer_is_text or first.answer == question.answer
            if same_answer and particulars(question.compared_text) == particulars(
                first.compared_text
            ):
                repetitions.append(
                    Repetition(
                        row=question_hash(question.question),
                        question=question.question,
                        first=first.question,
                        similarity=round(match.similarity, 4),
                    )
                )
                gone.add(number)
                break
        else:
            kept.append(question)
    return (kept if config.repeated == "remove" else list(questions)), repetitions


def contamination_facts(
    findings: dict[str, dict[str, BenchmarkFindings]],
    repetitions: dict[str, list[Repetition]],
    config: NearConfig,
) -> dict[str, Any]:
    """Return contamination.json without the counts of splits.

    Args:
        findings: Pool -> benchmark -> what was found.
        repetitions: Pool -> what repeats within it.
        config: Thresholds, and whether to remove.
    """
    return {
        "algorithm": {
            "long_questions": {
                "from_words": LONG_WORDS,
                "measure": f"share of the question's word {NGRAM}-grams in the training row",
                "threshold": config.overlap,
            },
            "short_questions": {
                "measure": "difflib ratio of words",
                "threshold": config.similarity,
            },
            "suspected_from": [_SUSPECTED_OVERLAP, _SUSPECTED_SIMILARITY],
        },
        "contaminated": config.contaminated,
        "repeated": config.repeated,
        "benchmarks": {
            pool: {name: asdict(found) for name, found in by_name.items()}
            for pool, by_name in findings.items()
        },
        "repetitions": {
            pool: [asdict(repetition) for repetition in found]
            for pool, found in repetitions.items()
        },
    }
