"""Questions of files, from the Hub or local: read, deduplicated, decontaminated, held out."""

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmts.data.config import DataConfig, FieldNames
from gmts.data.contamination import (
    Benchmark,
    BenchmarkFindings,
    Repetition,
    contamination_facts,
    decontaminated,
    read_benchmark,
    without_repetitions,
)
from gmts.data.hub import fetch
from gmts.data.pool import Normalise, Pool, collect, pool_facts
from gmts.data.questions import SPLITS, Question, Source, Split, question_hash
from gmts.data.records import BadRowError, BadRows, Record, field_text, field_value, read_records
from gmts.data.sets.table import SETS
from gmts.files import file_sha256, text_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How rows become questions."""

    normalise: Normalise
    columns: tuple[str, ...] | None
    wanted: str
    answer_is_text: bool


def file_source(config: DataConfig, root: Path, benchmarks: Sequence[Benchmark] = ()) -> Source:
    """Return the questions of data.hub or data.files, less those near one of a benchmark.

    Validation and test without a file of their own are held out of train: the first rows of own
    files; of a named set, whose files may be sorted, the rows with the lowest question hashes.

    Raises:
        ValueError: If a file, a row or a benchmark is not valid, or the data is not the expected.
        OSError: If the Hub cannot be reached.
    """
    files, facts = _files(config, root)
    form = _form(config)
    benchmarks = [
        *(read_benchmark(entry, root) for entry in config.decontaminate),
        *benchmarks,
    ]
    pools = {split: _read(paths, split, form, config) for split, paths in files.items()}
    _check_expected(pools["train"], config)
    questions: dict[Split, list[Question]] = {}
    findings: dict[str, dict[str, BenchmarkFindings]] = {}
    repetitions: dict[str, list[Repetition]] = {}
    for split, pool in pools.items():
        if split == "test":  # a test file may well be one of the benchmarks
            questions[split] = pool.questions
        else:
            questions[split], findings[split], repetitions[split] = _cleaned(
                pool, benchmarks, form, config
            )
        if config.set is not None:
            questions[split] = sorted(
                questions[split], key=lambda question: question_hash(question.question)
            )

    def draw(split: Split) -> Iterator[Question]:
        # What validation and test take of train is not left for train, because a question
        # belongs to one split only.
        yield from questions.get(split, questions["train"])

    return Source(
        draw=draw,
        facts={
            **facts,
            "pools": {
                split: {
                    **pool_facts(pool),
                    "near_benchmarks": _num_near(findings.get(split, {})),
                    "near_earlier_rows": len(repetitions.get(split, ())),
                }
                for split, pool in pools.items()
            },
            "near": asdict(config.near),
            "expected": {"rows": config.expected.rows, "sha256": config.expected.sha256},
        },
        contamination={
            **contamination_facts(findings, repetitions, config.near),
            "conflicts": {
                split: [
                    {"question": found.question, "answers": found.answers, "places": found.places}
                    for found in pool.conflicts
                ]
                for split, pool in pools.items()
            },
        },
    )


def _files(config: DataConfig, root: Path) -> tuple[dict[Split, list[Path]], dict[str, Any]]:
    """Return the files of each split that has some, and the manifest's entries for them."""
    named: dict[Split, str] = {
        split: name for split in SPLITS if (name := getattr(config.files, split)) is not None
    }
    facts: dict[str, Any] = {}
    files: dict[Split, list[Path]] = {}
    if config.source == "hub" and config.set is not None:
        named.pop("train", None)
        known = SETS[config.set]
        repo, revision = config.hub.repo or known.repo, str(config.hub.revision)
        found = fetch(repo, revision, config.hub.files or known.files)
        files["train"] = list(found.values())
        facts["hub"] = {
            "repo": repo,
            "revision": revision,
            "files": {name: file_sha256(path) for name, path in found.items()},
        }
    files |= {split: [root / name] for split, name in named.items()}
    for split, name in named.items():
        if not (root / name).is_file():
            raise ValueError(
                f"data.files.{split} must name a file, got {root / name}: there is none"
            )
    external = [*named.values(), *(entry.partition("=")[2] for entry in config.decontaminate)]
    facts["files"] = {
        name: file_sha256(root / name) for name in sorted(set(external)) if (root / name).is_file()
    }
    return files, facts


def _form(config: DataConfig) -> _Form:
    if config.set is None:
        return _Form(
            normalise=functools.partial(_own, names=config.fields),
            columns=None,
            wanted=f"{config.fields.question}, {config.fields.answer}",
            answer_is_text=True,
        )
    known = SETS[config.set]

    def normalise(record: Record) -> Question:
        return known.normalise(record, known.fields)

    return _Form(
        normalise=normalise,
        columns=known.columns,
        wanted=", ".join(known.columns),
        answer_is_text=known.answer_is_text,
    )


def _own(record: Record, names: FieldNames) -> Question:
    question, answer = field_text(record, names.question), field_text(record, names.answer)
    identifier = None if names.id is None else field_value(record, names.id)
    if names.id is not None and not isinstance(identifier, str | int):
        raise BadRowError(f"{names.id} must be text or a whole number, got {identifier!r:.80}")
    if names.sha256 is not None:
        expected, found = field_value(record, names.sha256), text_sha256(f"{question}\n{answer}")
        if expected != found:
            raise BadRowError(
                f"{names.sha256} must be the sha256 of question, newline, answer ({found}), got "
                f"{expected!r:.80}"
            )
    plain = json.loads(json.dumps(record, default=str))  # parquet has dates and decimals too
    return Question(
        id=None if identifier is None else str(identifier),
        question=question,
        answer=answer,
        meta=plain | {"metadata": plain.get("metadata") or {}},
    )


def _read(paths: list[Path], split: Split, form: _Form, config: DataConfig) -> Pool:
    bad = BadRows(policy=config.bad_rows)
    key = "data.hub" if config.source == "hub" and split == "train" else f"data.files.{split}"
    records = (
        record
        for path in paths
        for record in read_records(path, key, bad, columns=form.columns, wanted=form.wanted)
    )
    return collect(records, form.normalise, bad, answer_is_text=form.answer_is_text)


def _check_expected(pool: Pool, config: DataConfig) -> None:
    for name, expected, found in (
        ("rows", config.expected.rows, pool.rows_read),
        ("sha256", config.expected.sha256, pool.sha256),
    ):
        if expected is not None and expected != found:
            raise ValueError(
                f"data.expected.{name} must be that of the training files ({found}), got "
                f"{expected}: the data is not what the experiment was made for"
            )


def _num_near(findings: dict[str, BenchmarkFindings]) -> int:
    """Return how many rows are near some benchmark."""
    return len({finding.row for found in findings.values() for finding in found.near})


def _cleaned(
    pool: Pool, benchmarks: list[Benchmark], form: _Form, config: DataConfig
) -> tuple[list[Question], dict[str, BenchmarkFindings], list[Repetition]]:
    questions, findings = decontaminated(pool.questions, benchmarks, config.near)
    questions, repetitions = without_repetitions(
        questions, config.near, answer_is_text=form.answer_is_text
    )
    return questions, findings, repetitions
