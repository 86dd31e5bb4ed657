from collections import Counter
from dataclasses import replace

import pytest
import torch

from gmts.config import ConfigError, parse_params
from gmts.rewards.verdict import RewardError, Verdict
from gmts.rollout.sampler import Sample, Sampler
from gmts.trainers.config import DynamicSamplingConfig
from gmts.trainers.standalone.groups import Group
from gmts.trainers.standalone.rollouts import Rollouts, rollout_metrics
from gmts.trainers.standalone.state import LoopState, drawn_questions, stream_seed
from tests.support.tiny_run import judged, tiny_model, tiny_questions, tiny_tree

OFF = DynamicSamplingConfig(enabled=False, max_batches=4, surplus="carry", informative_on="verdict")
ON = replace(OFF, enabled=True)


def _verdict(correct, score):
    return Verdict(correct=correct, score=score, reason="", extracted=None, seconds=0.0)


def _group(verdicts):
    sample = Sample(token_ids=(3,), finished=False, log_probs=(-1.0,))
    count = len(verdicts)
    return Group(
        draw=0,
        row=0,
        prompt=(3,),
        samples=(sample,) * count,
        texts=("a",) * count,
        verdicts=tuple(verdicts),
    )


def _rollouts(dynamic, function=None, size=4, group_size=4):
    known = {} if function is None else {"function": function}
    sampler = Sampler(
        tiny_model(), eos_ids=(1,), temperature=1.0, max_response_tokens=6, batch_size=16
    )
    return Rollouts(
        tiny_questions("train", 10, **known),
        sampler,
        seed=0,
        group_size=group_size,
        questions_per_batch=size,
        dynamic_sampling=dynamic,
        device=torch.device("cpu"),
    )


def _only_for(draws):
    """Return a reward that is mixed within the first `draws` groups of four and 0 afterwards."""
    calls = Counter()

    def reward(text):
        calls["all"] += 1
        return calls["all"] <= 4 * draws and calls["all"] % 2

    return reward


def test_c11_a_group_that_is_all_wrong_is_uninformative_whatever_its_shaped_rewards():
    shaped = [_verdict(False, score) for score in (0.0, -0.1, -0.2, 0.0)]
    assert not _group(shaped).informative("verdict")
    assert _group([_verdict(True, 0.0), _verdict(False, 0.0)]).informative("verdict")
    assert not _group([_verdict(True, 1.0), _verdict(True, 0.5)]).informative("verdict")


def test_a_graded_group_is_informative_where_its_grades_differ():
    assert _group([_verdict(False, 0.25), _verdict(False, 0.5)]).informative("grade")
    assert not _group([_verdict(False, 0.5), _verdict(False, 0.5)]).informative("grade")


def test_a_grade_outside_its_range_stops_the_run():
    rollouts = _rollouts(replace(ON, informative_on="grade"), function=lambda text: -0.1)
    with pytest.raises(RewardError, match=r"must lie in \[0, 1\].*got -0.1"):
        rollouts.collect(LoopState())


def test_grades_of_a_scorer_that_does_not_grade_are_refused():
    tree = tiny_tree(
        train__dynamic_sampling__informative_on="grade", rewards__scorer="reasoning_gym"
    )
    with pytest.raises(ConfigError, match=r"must be verdict with rewards\.scorer reasoning_gym"):
        parse_params(tree)


def test_c11_deciding_on_the_shaped_reward_is_refused():
    tree = tiny_tree(train__dynamic_sampling__informative_on="reward")
    with pytest.raises(
        ConfigError, match=r"informative_on must be one of 'verdict' or 'grade', got 'reward'"
    ):
        parse_params(tree)


def test_c11_uninformative_groups_are_never_trained_on():
    shaped = {0: 0.0, 1: -0.1, 2: -0.2}  # a length penalty; nothing is ever correct
    rollouts = _rollouts(ON, function=lambda text: shaped.get(len(text), -0.3))
    collected = rollouts.collect(LoopState())
    assert collected.batch == []
    assert collected.surplus == []
    assert collected.cap_reached
    assert collected.num_batches == 4
    metrics = rollout_metrics(collected)
    assert metrics["groups/all_wrong"] == 16
    assert metrics["groups/trained"] == 0
    assert metrics["reward/mean"] < 0


def test_without_dynamic_sampling_every_group_is_trained_on():
    collected = _rollouts(OFF, function=lambda text: 0.0).collect(LoopState())
    assert len(collected.batch) == 4
    assert not collected.cap_reached
    assert rollout_metrics(collected)["groups/all_wrong"] == 4


def test_the_cap_limits_the_batches_and_training_goes_on_with_what_there_is():
    rollouts = _rollouts(replace(ON, max_batches=3), function=_only_for(2))
    collected = rollouts.collect(LoopState())
    assert [group.draw for group in collected.batch] == [0, 1]
    assert collected.num_batches == 3
    assert collected.cap_reached
    metrics = rollout_metrics(collected)
    assert metrics["groups/sampled"] == 12
    assert metrics["groups/trained"] == 2
    assert metrics["groups/all_wrong"] == 10
    assert metrics["rollout/cap_reached"] == 1.0


@pytest.mark.parametrize(("surplus", "carried", "discarded"), [("carry", 1, 0), ("discard", 0, 1)])
def test_surplus_groups_are_carried_or_discarded_as_configured(surplus, carried, discarded):
    # Of each four groups three are informative: after two batches six, five are wanted.
    calls = Counter()

    def reward(text):
        calls["all"] += 1
        group = (calls["all"] - 1) // 4
        return group % 5 != 0 and calls["all"] % 2

    rollouts = _rollouts(replace(ON, surplus=surplus), function=reward, size=5)
    state = LoopState()
    first = rollouts.collect(state)
    assert [group.draw for group in first.batch] == [1, 2, 3, 4, 6]
    assert [group.draw for group in first.surplus] == [7, 8, 9][: 3 * carried]
    assert first.num_discarded == 3 * discarded
    state.carried = first.surplus
    second = rollouts.collect(state)
    expected = [7, 8, 9, 11, 12] if carried else [11, 12, 13, 14, 16]
    assert [group.draw for group in second.batch] == expected


def test_draws_number_groups_uniquely_and_epochs_visit_every_row_once():
    rows = drawn_questions(seed=3, num_rows=7, first=0, count=21)
    for epoch in range(3):
        assert sorted(rows[7 * epoch : 7 * epoch + 7]) == list(range(7))
    assert rows[:7] != rows[7:14]
    assert drawn_questions(seed=3, num_rows=7, first=5, count=4) == rows[5:9]
    assert drawn_questions(seed=4, num_rows=7, first=0, count=21) != rows
    state = LoopState()
    rollouts = _rollouts(OFF)
    draws = [g.draw for _ in range(3) for g in rollouts.collect(state).batch]
    assert draws == list(range(12))
    assert (state.draws, state.rollout_batches) == (12, 3)


def test_rollouts_depend_on_the_counters_and_the_seed_alone():
    def texts(state):
        return [group.texts for group in _rollouts(OFF).collect(state).batch]

    assert texts(LoopState()) == texts(LoopState())
    assert texts(LoopState(draws=4, rollout_batches=1)) != texts(LoopState())


def test_streams_have_seeds_of_their_own():
    seeds = {
        stream_seed(seed, stream, counter)
        for seed in (0, 1)
        for stream in ("rollouts", "questions")
        for counter in (0, 1, 10, 11)
    }
    assert len(seeds) == 16
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_metrics_count_every_sampled_response_before_any_filter():
    samples = (
        Sample(token_ids=(3, 4, 1), finished=True, log_probs=(-1.0, -1.0, -1.0)),
        Sample(token_ids=(3,) * 6, finished=False, log_probs=(-1.0,) * 6),
    )
    group = replace(
        _group([_verdict(True, 1.0), _verdict(False, 0.25)]), samples=samples, texts=("", "")
    )
    collected = replace(_rollouts(OFF).collect(LoopState()), sampled=[group])
    metrics = rollout_metrics(collected)
    assert metrics["reward/mean"] == 0.625
    assert metrics["reward/correct"] == 0.5
    assert metrics["response/length_mean"] == 4.5
    assert metrics["response/length_min"] == 3
    assert metrics["response/length_max"] == 6
    assert metrics["response/truncated"] == 0.5


def test_a_scorer_that_fails_names_the_row():
    questions = replace(tiny_questions("train", 2), scorer=judged(lambda text: 1 / 0))
    sample = Sample(token_ids=(3,), finished=True, log_probs=(-1.0,))
    with pytest.raises(ZeroDivisionError) as caught:
        questions.judge([0], [1], [sample])
    assert caught.value.__notes__ == ["while judging a response to row train-1"]
