"""What the code benchmarks ask, and what their rows are judged by."""

from typing import Any

from gmts.data.records import BadRowError, Record, field_text, field_value
from gmts.rewards.code import bigcodebench
from gmts.rewards.code.evalplus import FIELDS, KIND

CODE_SYSTEM_PROMPT = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
"""Of code. Source: arXiv 2608.30632, appendix on prompts."""


def code_question(problem: str, starter_code: str | None = None) -> str:
    """Return the user's message: the problem, the code to start from, and what is asked for."""
    parts = ["Write a self-contained Python script that solves the following problem.", problem]
    if starter_code is not None:
        parts.append(f"Start from this code:\n```python\n{starter_code}\n```")
    parts.append("Reason step by step, then give the complete script in a markdown code block.")
    return "\n\n".join(parts)


def humaneval_question(name: str, record: Record) -> str:
    """Return the question of a row of HumanEval+: the function's signature and docstring."""
    function = field_text(record, "entry_point")
    return code_question(
        f"Complete the function `{function}` as its docstring says.",
        field_text(record, "prompt").strip(),
    )


def mbpp_question(name: str, record: Record) -> str:
    """Return the question of a row of MBPP+: the task and its first assertion, as evalplus asks."""
    return code_question(field_text(record, "prompt").strip().strip('"').strip())


def evalplus_program(record: Record) -> str:
    """Return a program that is right."""
    return field_text(record, "prompt") + field_text(record, "canonical_solution")


def evalplus_meta(name: str, record: Record) -> dict[str, Any]:
    """Return what evalplus judges by: the problem as its release has it.

    Raises:
        BadRowError: If a field is missing.
    """
    problem = {field: field_value(record, field) for field in FIELDS}
    missing = [field for field, value in problem.items() if value is None]
    if missing:
        raise BadRowError(
            f"a problem must have evalplus's fields, got none of {', '.join(missing)}: use its "
            "release, HumanEvalPlus.jsonl.gz or MbppPlus.jsonl.gz"
        )
    return {"kind": KIND, "dataset": name, "problem": problem}


def bigcodebench_question(name: str, record: Record) -> str:
    """Return the question of a row of BigCodeBench-Instruct; it ends with code to start from."""
    return code_question(field_text(record, "instruct_prompt").strip())


def bigcodebench_program(record: Record) -> str:
    """Return a program that is right."""
    prompt = field_text(record, "complete_prompt")
    return f"{prompt}\n{field_text(record, 'canonical_solution')}"


def bigcodebench_meta(record: Record) -> dict[str, Any]:
    """Return what BigCodeBench judges by.

    Raises:
        BadRowError: If a field is missing.
    """
    problem = {field: field_text(record, field) for field in bigcodebench.FIELDS}
    return {"kind": bigcodebench.KIND, "problem": problem}
