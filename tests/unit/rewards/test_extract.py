import time

import pytest

from gmts.rewards.extract import after_thinking, last_boxed, last_statement
from gmts.rewards.math.judge import judge_math


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\fbox{3} \boxed{4}", "4"),
        (r"\boxed{4} \fbox{3}", "3"),
        (r"\boxed{x = \boxed{4}}", "4"),
        (r"\boxed{\boxed{4}}", "4"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed {4}", "4"),
        (r"\boxed{4} but write \boxed{}", "4"),
        (r"\boxed{}", None),
        (r"\boxed{\frac{1}{2}$", None),
        (r"} \boxed{4} }", "4"),
        (r"{ \boxed{4}", "4"),
        (r"\\boxed{4}", None),
    ],
)
def test_the_last_balanced_box_that_is_not_empty_counts(response, answer):
    assert last_boxed(response) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Final answer: 12", "12"),
        ("**Final Answer:** 12", "12"),
        ("**Answer: 12**", "12"),
        ("The answer is 12.", "12"),
        ("Answer: 34.", "34"),
        ("Answer: 3.14 and more", "3.14 and more"),
        ("The final answer is $x = 1. Not$ so. Indeed", "$x = 1. Not$ so"),
        ("Answer: 1\nAnswer: 2\nso", "2"),
        ("Answer:\n\n7", "7"),
        ("The answer is not 3", None),
        ("It is 12", None),
        ("answered: 12", None),
    ],
)
def test_without_a_box_the_last_statement_counts(response, answer):
    assert last_statement(response) == answer


@pytest.mark.parametrize(
    ("response", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a", ""),
        ("b<thinking>a", ""),
        ("b", "b"),
    ],
)
def test_thinking_is_left_out(response, rest):
    assert after_thinking(response) == rest


def test_a_required_box_makes_statements_worthless():
    for require_box, correct in ((False, True), (True, False)):
        verdict = judge_math("Answer: 5", "5", {}, require_box=require_box)
        assert verdict.correct is correct
    assert judge_math(r"\boxed{5}", "5", {}, require_box=True).correct


def test_the_text_around_an_answer_is_never_searched():
    for response in ("5", "so 5 it is", r"\boxed{6} or 5", "<think>\\boxed{5}</think> I give up"):
        verdict = judge_math(response, "5", {}, require_box=False)
        assert not verdict.correct


@pytest.mark.parametrize("piece", [r"\boxed{", "{", "}", r"\boxed{1}", "Answer: 1\n", "<think>"])
def test_a_million_characters_are_read_in_seconds(piece):
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    last_boxed(text)
    last_statement(text)
    after_thinking(text)
    assert time.process_time() - start < 10
