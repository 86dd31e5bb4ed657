"""Rows of each named set, in the forms of its releases, become questions."""

from typing import get_args, get_type_hints

import pytest

from gmts.data.config import DataConfig
from gmts.data.records import BadRowError
from gmts.data.sets.benchmarks import benchmark_question
from gmts.data.sets.table import SETS

BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
AFTER = 'Remember to put your answer on its own line after "Answer:".'
CHINESE = (
    "让我们一步一步地思考。请以“Answer: \\boxed{<final_answer>}”的格式输出最终答案。"
    "如果是选择题，请按顺序输出正确的选项，不带任何标点或空格。"
    "对于其他类型的问题，请只输出最终答案的数值。"
)


def normalised(name, record):
    return SETS[name].normalise(record, SETS[name].fields)


def dapo(content, answer="34"):
    return {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": content}],
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "0"},
    }


def test_the_sets_of_the_schema_are_those_of_the_table():
    annotation = get_type_hints(DataConfig)["set"]
    literal = next(part for part in get_args(annotation) if part is not type(None))
    assert set(get_args(literal)) == set(SETS)


def test_math12k_rows_keep_level_and_subject_for_the_prompt():
    question = normalised(
        "math12k", {"problem": " 1 + 1? ", "answer": "2", "level": "Level 3", "type": "Algebra"}
    )
    assert (question.question, question.answer) == ("1 + 1?", "2")
    assert question.meta == {"metadata": {"level": "Level 3", "subject": "Algebra"}}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (f"{BEFORE}\n\nthe sum of 1 and 2?\n\n{AFTER}", "the sum of 1 and 2?"),
        # A strip of characters would eat the letters that both texts share.
        (f"{BEFORE}\n\nSolve Solve the\n\n{AFTER}", "Solve Solve the"),
        (f"求 1+2.\n{CHINESE}", "求 1+2."),
        ("Bare problem", "Bare problem"),
        (f"Say why {AFTER} is there.", f"Say why {AFTER} is there."),
    ],
)
def test_dapos_wrapper_is_removed_as_a_whole_and_nothing_else(content, problem):
    assert normalised("dapo17k", dapo(content)).question == problem


def test_dapos_processed_release_has_text_for_prompt_and_solution():
    question = normalised("dapo17k", {"prompt": "1 + 2?", "solution": "3"})
    assert (question.question, question.answer) == ("1 + 2?", "3")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (dapo(f"{BEFORE}\n\n\n\n{AFTER}"), "prompt must hold a problem, got only instructions"),
        (dapo(f"{BEFORE}\n\n{AFTER}"), "prompt must hold a problem, got only instructions"),
        (dapo(" "), "prompt must be non-empty text"),
        (dapo("q", ""), "reward_model.ground_truth or solution must be non-empty text, got ''"),
        (dapo("q", 3), "reward_model.ground_truth or solution must be non-empty text, got 3"),
        (dapo("q") | {"prompt": [{"role": "system", "content": "q"}]}, "must be one user message"),
    ],
)
def test_a_dapo_row_without_problem_or_answer_is_bad(record, message):
    with pytest.raises(BadRowError, match=message):
        normalised("dapo17k", record)


CHOICES = [{"label": "A", "text": "bank"}, {"label": "B", "text": "river"}]


@pytest.mark.parametrize(
    "record",
    [
        {"id": "x", "answerKey": "B", "question": {"stem": "Where is water?", "choices": CHOICES}},
        {
            "id": "x",
            "answerKey": "B",
            "question": "Where is water?",
            "choices": {"label": ["A", "B"], "text": ["bank", "river"]},
        },
    ],
)
def test_csqa_of_both_releases_has_lettered_options_and_keeps_them(record):
    question = normalised("csqa", record)
    assert question.question == "Where is water?\nA. bank\nB. river"
    assert question.answer == "B"
    assert question.id == "x"
    assert question.meta["choices"] == {"A": "bank", "B": "river"}
    assert question.compared_text == "Where is water?"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answerKey": ""}, "answerKey must be non-empty text"),
        ({"answerKey": "C"}, "answerKey must be one of A, B, got 'C'"),
        ({"question": {"stem": "q", "choices": CHOICES[:1]}}, "choices must be at least two"),
        ({"question": {"stem": "q", "choices": CHOICES + CHOICES}}, "choices must be at least two"),
        ({"question": {"choices": CHOICES}}, "question.stem or question must be non-empty text"),
    ],
)
def test_a_csqa_row_without_a_valid_answer_is_bad(changes, message):
    record = {"answerKey": "A", "question": {"stem": "q", "choices": CHOICES}}
    with pytest.raises(BadRowError, match=message):
        normalised("csqa", record | changes)


KODCODE = {
    "style": "instruct",
    "subset": "Leetcode",
    "question_id": "Leetcode_1_I",
    "question": "Write a function that adds.",
    "solution": "def add(a, b):\n    return a + b",
    "test": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3",
    "test_info": [
        {"function_name": "add", "function_declaration": "def add(a, b):"},
        {"function_name": "twice", "function_declaration": "def twice(a)"},
        {"function_name": "add", "function_declaration": "def add(a, b):"},
    ],
}


def test_kodcode_keeps_tests_and_offers_the_declarations_as_starter_code():
    question = normalised("kodcode", KODCODE)
    assert question.id == "Leetcode_1_I"
    assert question.answer == KODCODE["solution"]
    assert question.meta["kind"] == "pytest"
    assert question.meta["tests"] == KODCODE["test"]
    assert question.meta["metadata"]["starter_code"] == (
        "def add(a, b):\n    pass\n\ndef twice(a):\n    pass"
    )


def test_kodcodes_published_samples_have_other_names():
    question = normalised(
        "kodcode_light_rl",
        {"instruction": "i", "response": "r", "test_code": "t", "metadata": {"mode": "prefill"}},
    )
    assert (question.question, question.answer, question.meta["tests"]) == ("i", "r", "t")
    assert question.meta["metadata"] == {"starter_code": "", "style": None, "subset": "prefill"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"style": "online_judge"}, "style must be one of instruct, complete, got 'online_judge'"),
        ({"test": None}, "test or test_code must be non-empty text, got None"),
        ({"solution": ""}, "solution or response must be non-empty text, got ''"),
    ],
)
def test_a_kodcode_row_that_cannot_be_judged_is_bad(changes, message):
    with pytest.raises(BadRowError, match=message):
        normalised("kodcode", KODCODE | changes)


def test_a_benchmarks_question_is_found_without_the_instruction():
    suffix = "\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert benchmark_question("aime25", {"prompt": "Find x." + suffix, "answer": 1}) == "Find x."
    assert benchmark_question("csqa", {"question": {"stem": "s"}}) == "s"
    assert benchmark_question("own", {"question": "q"}) == "q"
    with pytest.raises(BadRowError, match="problem must be non-empty text"):
        benchmark_question("math500", {"question": "q"})
