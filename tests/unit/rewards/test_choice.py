import pytest

from gmts.rewards.choice import judge_choice
from gmts.rewards.verdict import RewardError

CHOICES = {
    "A": "fast food restaurant",
    "B": "pizza",
    "C": "bank",
    "D": "blood bank",
    "E": "cow carcus",
}

NAMED = [
    ("Answer: B. pizza", "B"),
    ("The answer is A because B is wrong", "A"),
    ("the answer is **(B)**.", "B"),
    ("answer is blood bank, as it", "D"),
    ("Answer: bank", "C"),
    ("bank", "C"),
    ("(B)", "B"),
    ("**B**", "B"),
    ("B.", "B"),
    ("B. pizza", "B"),
    ("b", "B"),
    (r"\boxed{b}", "B"),
    (r"\boxed{\text{(B)}}", "B"),
    (r"$\boxed{\textbf{B. pizza}}$", "B"),
    (r"\boxed{Pizza}", "B"),
    (r"\boxed{B: pizza}", "B"),
    (r"\boxed{option B}", "B"),
    ("Answer: (A) fast food restaurant. It is", "A"),
    ("Answer: B (pizza)", "B"),
    ("The answer is not A. So the correct answer is option B.", "B"),
    ("The correct option is C", "C"),
    ("Answer: B\n\nExplanation: A is bad", "B"),
    ("The answer is B. The answer is obvious.", "B"),
    ("Answer:\nB", "B"),
    ("</think>B", "B"),
    ("The correct answer is A: fast food restaurant, not B.", "A"),
    ("Answer: C\nAnswer: D", "D"),
    (r"Answer: C, so \boxed{D}", "D"),
]
NOTHING = [
    "The answer is a bank",
    "I think B",
    "Both A and B",
    "B is right",
    "Answer: I don't know",
    r"\boxed{F}",
    r"\boxed{AB}",
    r"\boxed{B because it is}",
    r"Answer: B, but \boxed{none}",
    r"<think>\boxed{A}",
    "<think>A</think>",
    "",
]
CONTRADICTIONS = [
    "Answer: B. bank",
    "Answer: B (bank)",
    "Answer: A or B",
    "Answer: A, B, C",
    "The answer is A/B",
    "The answer is A (or maybe B)",
    "The answer is pizza or bank",
    r"\boxed{A, B}",
    r"\boxed{B and C}",
    r"\boxed{B) bank}",
]


def right(response, choices=CHOICES):
    return {
        label for label in choices if judge_choice(response, label, {"choices": choices}).correct
    }


@pytest.mark.parametrize(("response", "label"), NAMED)
def test_an_option_is_named_by_letter_by_both_or_by_text(response, label):
    assert right(response) == {label}


@pytest.mark.parametrize("response", NOTHING)
def test_what_names_no_option_is_wrong_for_every_gold(response):
    assert right(response) == set()


@pytest.mark.parametrize("response", CONTRADICTIONS)
def test_several_options_are_wrong_for_every_gold(response):
    assert right(response) == set()
    verdict = judge_choice(response, "A", {"choices": CHOICES})
    assert verdict.reason == "several options"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Yes", "yes"),
        ("no.", "no"),
        ("True", "yes"),
        (r"\boxed{\text{False}}", "no"),
        (r"\boxed{yes}", "yes"),
        ("**Answer: No**", "no"),
        ("Answer: No, because yes", "no"),
        ("No... wait. Final answer: yes", "yes"),
        ("The answer is yes, gas", "yes"),
        ("yes or no", None),
        ("Answer: yes and no", None),
        ("Yes, because", None),
        (r"\boxed{maybe}", None),
        ("not yes", None),
        ("yesterday", None),
    ],
)
def test_yes_and_no_are_judged_likewise(response, answer):
    for gold in ("yes", "no"):
        assert judge_choice(response, gold, {"choices": None}).correct is (gold == answer)
    assert judge_choice(response, "true", {}).correct is (answer == "yes")


def test_letters_may_be_judged_without_their_texts():
    assert judge_choice("Answer: (C)", "C", {}).correct
    assert not judge_choice("Answer: C or D", "C", {}).correct


@pytest.mark.parametrize(
    ("gold", "meta", "message"),
    [
        ("", {"choices": CHOICES}, "must be one of A, B, C, D, E, got ''"),
        ("F", {"choices": CHOICES}, "must be one of A, B, C, D, E, got 'F'"),
        ("pizza", {"choices": CHOICES}, "must be one of A, B, C, D, E"),
        ("", {}, "must be one of a letter, yes, no"),
        ("A", {"choices": ["pizza"]}, "choices must map labels to texts"),
    ],
)
def test_a_gold_that_is_no_option_is_an_error_and_never_a_reward(gold, meta, message):
    with pytest.raises(RewardError, match=message):
        judge_choice(r"\boxed{A}", gold, meta)
