"""Multiple choice: CommonsenseQA."""

from typing import Any

from gmts.data.questions import Question
from gmts.data.records import BadRowError, Record, field_text, field_value
from gmts.data.sets.dataset import DataSet, Fields


def _csqa(record: Record, fields: Fields) -> Question:
    stem = field_text(record, *fields["question"]).strip()
    choices = _choices(field_value(record, *fields["choices"]))
    answer = field_text(record, *fields["answer"]).strip()
    if answer not in choices:
        raise BadRowError(f"answerKey must be one of {', '.join(choices)}, got {answer!r}")
    lines = [f"{label}. {text}" for label, text in choices.items()]
    identifier = field_value(record, *fields["id"])
    return Question(
        id=None if identifier is None else str(identifier),
        question="\n".join([stem, *lines]),
        answer=answer,
        meta={"choices": choices, "metadata": {"stem": stem}},
        compared=stem,
    )


def _choices(value: Any) -> dict[str, str]:
    """Return label -> text; releases have a list of pairs or a pair of lists."""
    if isinstance(value, dict):
        pairs = list(zip(value.get("label") or (), value.get("text") or (), strict=False))
    else:
        pairs = [(option.get("label"), option.get("text")) for option in value or ()]
    choices = {str(label): str(text).strip() for label, text in pairs}
    if len(choices) < 2 or len(choices) != len(pairs) or not all(choices.values()):
        raise BadRowError(
            f"choices must be at least two options with a label and a text, got {value!r:.80}"
        )
    return choices


CSQA = DataSet(
    repo="tau/commonsense_qa",
    files=("data/train-*.parquet",),
    fields={
        "id": ("id",),
        "question": ("question.stem", "question"),
        "choices": ("question.choices", "choices"),
        "answer": ("answerKey",),
    },
    normalise=_csqa,
    license="MIT",
)
