r"""Mathematics with a short answer: MATH-12K and DAPO-Math-17k."""

from gmts.data.questions import Question
from gmts.data.records import BadRowError, Record, field_text, field_value
from gmts.data.sets.dataset import DataSet, Fields

_DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
_DAPO_AFTER = (
    'Remember to put your answer on its own line after "Answer:".',
    # 20 Chinese rows ask for another form of answer in a paragraph of their own.
    "让我们一步一步地思考。请以“Answer: \\boxed{<final_answer>}”的格式输出最终答案。"
    "如果是选择题，请按顺序输出正确的选项，不带任何标点或空格。"
    "对于其他类型的问题，请只输出最终答案的数值。",
)


def _math12k(record: Record, fields: Fields) -> Question:
    known = {name: field_value(record, *fields[name]) for name in ("level", "subject")}
    return Question(
        question=field_text(record, *fields["question"]).strip(),
        answer=field_text(record, *fields["answer"]).strip(),
        meta={"metadata": {name: value for name, value in known.items() if value is not None}},
    )


def _dapo(record: Record, fields: Fields) -> Question:
    prompt = field_value(record, *fields["question"])
    if isinstance(prompt, list):
        if [message.get("role") for message in prompt] != ["user"]:
            raise BadRowError(f"prompt must be one user message, got {prompt!r:.80}")
        prompt = prompt[0].get("content")
    return Question(
        question=_unwrapped(field_text({"prompt": prompt}, "prompt")),
        answer=field_text(record, *fields["answer"]).strip(),
        meta={"metadata": {}},
    )


def _unwrapped(prompt: str) -> str:
    """Return the problem without the instructions around it."""
    text = prompt.strip().removeprefix(_DAPO_BEFORE).strip()
    for instruction in _DAPO_AFTER:
        text = text.removesuffix(instruction).strip()
    if not text:
        raise BadRowError(f"prompt must hold a problem, got only instructions {prompt!r:.80}")
    return text


MATH12K = DataSet(
    repo="hiyouga/math12k",
    files=("data/train-*.parquet",),
    fields={
        "question": ("problem",),
        "answer": ("answer",),
        "level": ("level",),
        "subject": ("subject", "type"),
    },
    normalise=_math12k,
    license="MIT",
)

DAPO17K = DataSet(
    repo="BytedTsinghua-SIA/DAPO-Math-17k",
    files=("data/*.parquet",),
    fields={
        "question": ("prompt",),
        "answer": ("reward_model.ground_truth", "solution"),
    },
    normalise=_dapo,
    license="Apache-2.0",
)
