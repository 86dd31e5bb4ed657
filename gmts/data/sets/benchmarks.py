"""Where benchmark files hold their question, so that training rows can be compared with it."""

from gmts.data.records import Record, field_text

_QUESTION_FIELDS: dict[str, tuple[str, ...]] = {
    "aime24": ("problem",),
    "aime25": ("problem", "prompt"),
    "amc23": ("problem", "question"),
    "math500": ("problem",),
    "minerva": ("problem", "question"),
    "olympiadbench": ("question",),
    "csqa": ("question.stem", "question"),
    "csqa2": ("question",),
    "gsm8k": ("question",),
    "humaneval": ("prompt",),
    "mbpp": ("text", "prompt"),
    "livecodebench": ("question_content",),
    "bigcodebench": ("instruct_prompt", "complete_prompt"),
}
"""By name, the fields of the releases we know. Any other name: `question`."""

_INSTRUCTIONS = ("\nPlease reason step by step, and put your final answer within \\boxed{}.",)
"""Ends of a question that are not the question's."""


def benchmark_question(name: str, record: Record) -> str:
    """Return the question of a row of the benchmark `name`.

    Raises:
        BadRowError: If the row has no question.
    """
    text = field_text(record, *_QUESTION_FIELDS.get(name, ("question",)))
    for instruction in _INSTRUCTIONS:
        text = text.strip().removesuffix(instruction)
    return text
