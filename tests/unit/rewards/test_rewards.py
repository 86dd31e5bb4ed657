import pytest
import reasoning_gym

from gmts.rewards.config import MathConfig, PoolConfig, RewardsConfig
from gmts.rewards.extract import first_line, last_boxed
from gmts.rewards.scorer import make_scorer
from gmts.rewards.verdict import RewardError
from tests.support.core import overlong

ENTRY = reasoning_gym.create_dataset("chain_sum", size=1, seed=10_000_000, min_terms=3,
                                     max_terms=3, min_digits=1, max_digits=1)[0]  # fmt: skip


def scorer(**changes):
    values = {
        "scorer": "reasoning_gym",
        "answer": "boxed",
        "custom": None,
        "math": MathConfig(require_box=False),
        "overlong": overlong(),
        "pool": PoolConfig(workers=2, deadline_s=3.0, memory_mib=1024),
    }
    return make_scorer(RewardsConfig(**(values | changes)))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{4}", "4"),
        (r"\boxed{1} then \boxed{ 2 }", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{", None),
        ("4", None),
        ("", None),
    ],
)
def test_the_last_balanced_box_is_the_answer(response, answer):
    assert last_boxed(response) == answer


@pytest.mark.parametrize(
    ("response", "answer"), [(" 8\n9 = 3", "8"), ("8", "8"), ("\n8", None), ("", None)]
)
def test_the_first_line_is_the_answer_of_a_completion(response, answer):
    assert first_line(response) == answer


def test_full_credit_alone_counts():
    score = scorer()
    assert ENTRY["answer"] == "-2"
    right = score(r"\boxed{-2}", "-2", ENTRY)
    assert (right.correct, right.score, right.extracted) == (True, 1.0, "-2")
    for response in (r"\boxed{2}", r"\boxed{-2 or so}", "-2", r"\boxed{}"):
        wrong = score(response, "-2", ENTRY)
        assert (wrong.correct, wrong.score) == (False, 0.0)
    assert scorer(answer="first_line")(" -2\n", "-2", ENTRY).correct


def test_a_missing_ground_truth_is_an_error_and_never_a_reward():
    with pytest.raises(RewardError, match="ground truth must be non-empty"):
        scorer()(r"\boxed{1}", " ", ENTRY)


def test_an_own_scorer_may_return_a_bool_a_number_or_a_verdict():
    score = scorer(scorer="custom", custom="examples.parity:reward")
    verdict = score(r"\boxed{even}", "even", {})
    assert (verdict.correct, verdict.score, verdict.extracted) == (True, 1.0, "even")
    graded = scorer(scorer="custom", custom="examples.short_answers:reward")
    long = graded("x" * 100 + r"\boxed{7}", "7", {})
    assert long.correct
    assert 0 < long.score < 1


def test_an_own_scorer_that_fails_or_returns_nonsense_stops_the_run():
    with pytest.raises(TypeError):
        scorer(scorer="custom", custom="tests.support.bad_rewards:raises")("r", "g", {})
    with pytest.raises(RewardError, match="must return a bool, a number or a Verdict, got 'yes'"):
        scorer(scorer="custom", custom="tests.support.bad_rewards:text")("r", "g", {})
    with pytest.raises(RewardError, match="got nan"):
        scorer(scorer="custom", custom="tests.support.bad_rewards:nan")("r", "g", {})


@pytest.mark.parametrize(
    ("custom", "message"),
    [
        ("nowhere:f", "rewards.custom must name an importable module"),
        ("math:nothing", "rewards.custom must name a function of math"),
        ("examples.parity:questions", "rewards.custom must take 3 positional arguments"),
    ],
)
def test_an_own_scorer_is_checked_before_it_is_needed(custom, message):
    with pytest.raises(ValueError, match=message):
        scorer(scorer="custom", custom=custom)
