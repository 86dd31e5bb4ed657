"""Rows as the model sees them, verdicts with their reasons, and the questions that go wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gmts.config import ConfigError, Params
from gmts.stages.views import (
    Answer,
    Change,
    Comparison,
    Piece,
    Reason,
    SeenQuestion,
    SeenRow,
    SeenScores,
    SeenSplit,
    SeenVerdicts,
    StoredResponse,
)
from gmts.stages.workspace import Workspace

if TYPE_CHECKING:
    from gmts.data.rows import Row
    from gmts.evaluation.results import Judged
    from gmts.models.template import PromptTemplate

Split = Literal["train", "validation", "test"]

_ANSWERS = 3
"""Most frequent answers to a question that are shown."""


_SHOWN = {
    "task", "model", "questions", "samples", "average", "pass_at", "truncated", "no_answer",
}  # fmt: skip
"""Of scores.json."""


def inspect_data(
    params: Params, workspace: Workspace, split: Split, *, limit: int, row_id: str | None = None
) -> SeenSplit:
    """Return rows of data/prepared with their prompts as token text.

    Args:
        params: The experiment: model, template, scorer.
        workspace: Where its prepared data lie.
        split: Of which rows are shown.
        limit: The first so many rows.
        row_id: This row alone.

    Raises:
        ConfigError: If there is no such row, or the rows were prepared for another template.
        ValueError: If the prepared data or the tokenizer are missing or damaged.
    """
    from gmts.data.manifest import check_split, read_manifest
    from gmts.data.rows import read_rows

    rows = read_rows(check_split(workspace.prepared_dir, split))
    template = _template(params, workspace, read_manifest(workspace.prepared_dir))
    shown = rows[:limit] if row_id is None else [row for row in rows if row.id == row_id]
    if not shown:
        raise ConfigError(f"--id must be a row of {split}, e.g. {rows[0].id}, got {row_id!r}")
    kind = params.rewards.scorer
    return SeenSplit(num_rows=len(rows), rows=[_seen_row(row, template, kind) for row in shown])


def _template(
    params: Params, workspace: Workspace, manifest: Mapping[str, Any]
) -> "PromptTemplate":
    from gmts.data.manifest import TOKENIZER_DIR
    from gmts.models.folder import load_tokenizer
    from gmts.models.template import PromptTemplate

    folder = workspace.prepared_dir / TOKENIZER_DIR
    if params.model.path is not None:
        folder = workspace.root / params.model.path
    template = PromptTemplate.of(load_tokenizer(folder), params.model.template)
    prepared = manifest.get("template_sha256")
    if template.sha256 != prepared:
        raise ConfigError(
            f"the prompt template of {folder} must be the one that data/prepared was made with "
            f"({prepared}), got {template.sha256}; run `gmts prepare`"
        )
    return template


def _seen_row(row: "Row", template: "PromptTemplate", kind: str) -> SeenRow:
    ids = template.encode(row.messages)
    return SeenRow(
        id=row.id,
        source=row.source,
        kind=str(row.meta.get("kind") or kind),
        ground_truth=row.ground_truth,
        num_tokens=len(ids),
        prompt=_pieces(template.tokenizer, ids),
    )


def _pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[Piece, ...]:
    """Return the text of `ids`; ordinary tokens together, since a character may take several."""
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    runs: list[tuple[bool, list[int]]] = []
    for token in ids:
        alone = token in special
        if alone or not runs or runs[-1][0]:
            runs.append((alone, []))
        runs[-1][1].append(token)
    return tuple(
        Piece(text=tokenizer.decode(run, clean_up_tokenization_spaces=False), special=alone)
        for alone, run in runs
    )


def inspect_rewards(
    results: Path, *, correct: bool | None = None, reason: str | None = None
) -> SeenVerdicts:
    """Return the verdicts in a folder that evaluate, benchmark or rescore wrote.

    Args:
        results: The folder.
        correct: Only right responses, or only wrong ones; None: both.
        reason: Only reasons that begin with this; None: all.

    Raises:
        ConfigError: If no response has such a reason.
        ValueError: If a file is missing or damaged.
    """
    _, questions = _results(results)
    stored = [response for question in questions for response in _stored(question)]
    counts = Counter(response.reason for response in stored)
    right = Counter(response.reason for response in stored if response.correct)
    if reason is not None and not any(name.startswith(reason) for name in counts):
        raise ConfigError(f"--reason must begin one of {', '.join(counts)}, got {reason!r}")
    return SeenVerdicts(
        reasons=[
            Reason(reason=name, responses=count, right=right[name])
            for name, count in counts.most_common()
        ],
        responses=[
            response
            for response in stored
            if correct in (None, response.correct) and response.reason.startswith(reason or "")
        ],
    )


def _stored(question: "Judged") -> list[StoredResponse]:
    pairs = zip(question.responses, question.verdicts, strict=True)
    return [
        StoredResponse(
            id=question.row.id,
            sample=sample,
            ground_truth=question.row.ground_truth,
            text=response.text,
            num_tokens=response.num_tokens,
            finished=response.finished,
            correct=verdict.correct,
            reason=verdict.reason,
            extracted=verdict.extracted,
        )
        for sample, (response, verdict) in enumerate(pairs)
    ]


def inspect_eval(results: Path, *, against: Path | None = None) -> SeenScores:
    """Return the scores in a folder and its questions, the worst first, equal ones as asked.

    Args:
        results: A folder that evaluate, benchmark or rescore wrote.
        against: An earlier one of the same questions.

    Raises:
        ConfigError: If the two have no question in common.
        ValueError: If a file is missing or damaged.
    """
    scores, judged = _results(results)
    questions = [_seen_question(question) for question in judged]
    return SeenScores(
        scores=scores,
        questions=sorted(questions, key=lambda question: question.right),
        comparison=None if against is None else _comparison(results, against, judged),
    )


def _comparison(results: Path, against: Path, judged: "Sequence[Judged]") -> Comparison:
    scores, earlier = _results(against)
    before = {_identity(question): _right(question) for question in earlier}
    common = [question for question in judged if _identity(question) in before]
    if not common:
        raise ConfigError(
            f"--against must hold questions of {results}, got {against}, which shares none"
        )
    changes = [
        Change(
            question=_seen_question(question),
            before=before[_identity(question)],
            after=_right(question),
        )
        for question in common
    ]
    average = scores["average"]
    return Comparison(
        average=(average["value"], average["low"], average["high"]),
        changed=sorted(
            (change for change in changes if change.before != change.after),
            key=lambda change: -abs(change.after - change.before),
        ),
        common=len(common),
        other=len(judged) + len(earlier) - 2 * len(common),
    )


def _identity(question: "Judged") -> tuple[str, str]:
    # A benchmark's ids are numbers of rows; another release may have other questions there.
    return question.row.id, _text(question)


def _text(question: "Judged") -> str:
    return question.row.messages[-1]["content"]


def _right(question: "Judged") -> float:
    return sum(verdict.correct for verdict in question.verdicts) / len(question.verdicts)


def _seen_question(question: "Judged") -> SeenQuestion:
    answers = Counter((verdict.extracted, verdict.correct) for verdict in question.verdicts)
    responses = question.responses
    return SeenQuestion(
        id=question.row.id,
        question=_text(question),
        ground_truth=question.row.ground_truth,
        right=_right(question),
        truncated=sum(not response.finished for response in responses) / len(responses),
        answers=tuple(
            Answer(text=text, responses=count, correct=correct)
            for (text, correct), count in answers.most_common(_ANSWERS)
        ),
    )


def _results(folder: Path) -> "tuple[dict[str, Any], list[Judged]]":
    from gmts.evaluation.results import SCORES, read_results

    if not (folder / SCORES).is_file():
        below = sorted({*folder.glob(f"*/{SCORES}"), *folder.glob(f"*/*/{SCORES}")})
        hint = f"; below it there are {', '.join(str(f.parent) for f in below)}" if below else ""
        raise ValueError(
            f"{folder} must be a folder with {SCORES}, as reports/evaluation/MODEL or "
            f"reports/benchmarks/NAME/MODEL are, got one without{hint}"
        )
    scores, judged = read_results(folder)
    missing = sorted(_SHOWN - scores.keys())
    if missing:
        raise ValueError(f"{folder / SCORES} must hold {', '.join(missing)}, got none")
    return scores, judged
