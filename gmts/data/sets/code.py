"""Programming problems with pytest tests: KodCode."""

from dataclasses import replace

from gmts.data.questions import Question
from gmts.data.records import BadRowError, Record, field_text, field_value
from gmts.data.sets.dataset import DataSet, Fields

_PYTEST_STYLES = ("instruct", "complete")


def _kodcode(record: Record, fields: Fields) -> Question:
    style = field_value(record, *fields["style"])
    if style is not None and style not in _PYTEST_STYLES:
        # KodCode-V1.1 adds problems that read standard input; their tests have another form.
        raise BadRowError(f"style must be one of {', '.join(_PYTEST_STYLES)}, got {style!r}")
    identifier = field_value(record, *fields["id"])
    return Question(
        id=None if identifier is None else str(identifier),
        question=field_text(record, *fields["question"]).strip(),
        answer=field_text(record, *fields["answer"]),
        meta={
            "kind": "pytest",
            "tests": field_text(record, *fields["tests"]),
            "metadata": {
                "starter_code": _starter_code(record, fields),
                "style": style,
                "subset": field_value(record, *fields["subset"]),
            },
        },
    )


def _starter_code(record: Record, fields: Fields) -> str:
    """Return the declarations of the functions that the tests call, with empty bodies."""
    functions = field_value(record, *fields["functions"]) or []
    declarations = [
        str(function["function_declaration"]).strip().removesuffix(":")
        for function in functions
        if function.get("function_declaration")
    ]
    return "\n\n".join(f"{declaration}:\n    pass" for declaration in dict.fromkeys(declarations))


KODCODE = DataSet(
    repo="KodCode/KodCode-V1",
    files=("data/train-*.parquet",),
    # The second names are those of the project's published samples.
    fields={
        "id": ("question_id",),
        "question": ("question", "instruction"),
        "answer": ("solution", "response"),
        "tests": ("test", "test_code"),
        "functions": ("test_info",),
        "style": ("style",),
        "subset": ("subset", "metadata.mode"),
    },
    normalise=_kodcode,
    license="CC-BY-NC-4.0",
    answer_is_text=False,
)

KODCODE_LIGHT_RL = replace(KODCODE, repo="KodCode/KodCode-Light-RL-10K")
