from dataclasses import asdict, replace
from functools import partial

import pytest
import torch

from gmts.batch import TokenStats
from gmts.objective.config import ObjectiveConfig
from gmts.rewards.overlong import overlong_penalty
from gmts.rewards.verdict import Verdict
from gmts.rollout.sampler import Sample
from gmts.trainers.standalone.batches import log_ratio_metrics, measured, rollout_of
from gmts.trainers.standalone.groups import Group
from tests.support.core import overlong

CPU = torch.device("cpu")
CONFIG = ObjectiveConfig(
    algorithm="dapo",
    clip_ratio_low=0.2,
    clip_ratio_high=0.28,
    dual_clip=None,
    beta=0.0,
    normalize_by_std=True,
    std_ddof=1,
    denominator="selected",
    mask_kl=True,
    kl_zero_tolerance=1e-5,
    overlong_filter=False,
    rollout_is=None,
    rollout_is_threshold=2.0,
)


def _group(draw, lengths, correct, finished=None):
    finished = [True] * len(lengths) if finished is None else finished
    return Group(
        draw=draw,
        row=draw,
        prompt=(5,) * (draw + 1),
        samples=tuple(
            Sample(token_ids=tuple(range(2, 2 + n)), finished=done, log_probs=(-1.0,) * n)
            for n, done in zip(lengths, finished, strict=True)
        ),
        texts=("",) * len(lengths),
        verdicts=tuple(
            Verdict(correct=c, score=float(c), reason="", extracted=None, seconds=0.0)
            for c in correct
        ),
    )


def _pass(value):
    """A policy whose statistics are one number everywhere."""

    def stats(prompts, tokens):
        filled = torch.where(tokens.response_mask, value, 0.0)
        return TokenStats(log_probs=filled, entropy=-filled, logit_grad_norm=filled)

    return stats


def _rollout(groups, fresh, config=CONFIG, reference=None, penalty=lambda num_tokens: 0.0):
    return rollout_of(groups, config, reference=reference, penalty=penalty, fresh=fresh, device=CPU)


def test_groups_become_padded_rows_with_unique_ids():
    groups = [_group(4, [2, 3], [1, 0]), _group(7, [1, 2], [0, 0])]
    tokens = _rollout(measured(groups, _pass(-1.5), CPU), {4, 7}).tokens
    assert tokens.response_ids.tolist() == [[2, 3, 0], [2, 3, 4], [2, 0, 0], [2, 3, 0]]
    assert tokens.response_mask.tolist() == [
        [True, True, False],
        [True, True, True],
        [True, False, False],
        [True, True, False],
    ]
    assert tokens.sample_ids.tolist() == [8, 9, 14, 15]
    assert tokens.group_ids.tolist() == [4, 4, 7, 7]
    half = 0.5 / (0.5**0.5 + 1e-6)
    assert tokens.advantages.tolist() == pytest.approx([half, -half, 0.0, 0.0])
    assert tokens.old_log_probs[1].tolist() == [-1.5, -1.5, -1.5]
    assert tokens.ref_log_probs is None


def test_prompts_stand_once_per_response():
    groups = measured([_group(0, [1, 1], [1, 0]), _group(1, [1, 1], [1, 0])], _pass(-1.0), CPU)
    assert _rollout(groups, {0, 1}).prompts == [(5,), (5,), (5, 5), (5, 5)]


def test_carried_groups_keep_the_statistics_of_the_policy_that_sampled_them():
    carried = measured([_group(0, [3, 1], [1, 0])], _pass(-1.0), CPU)
    both = measured([*carried, _group(1, [2, 2], [1, 0])], _pass(-2.0), CPU)
    rollout = _rollout(both, {1})
    assert rollout.tokens.old_log_probs.tolist() == [
        [-1.0, -1.0, -1.0],
        [-1.0, 0.0, 0.0],
        [-2.0, -2.0, 0.0],
        [-2.0, -2.0, 0.0],
    ]
    assert rollout.stale
    assert not _rollout(both, {0, 1}).stale


def test_carried_groups_survive_a_checkpoint_exactly():
    group = measured([_group(3, [3, 1], [1, 0])], _pass(-0.1), CPU)[0]
    again = Group.unpacked(asdict(group))
    assert replace(again, stats=None) == replace(group, stats=None)
    assert torch.equal(again.stats.log_probs, group.stats.log_probs)


def test_the_overlong_filter_takes_cut_responses_out_of_the_loss_but_not_out_of_the_group():
    groups = measured([_group(0, [2, 2, 2, 2], [1, 1, 0, 0], [1, 1, 0, 1])], _pass(-1.0), CPU)
    config = replace(CONFIG, overlong_filter=True)
    filtered, whole = _rollout(groups, {0}, config).tokens, _rollout(groups, {0}).tokens
    assert filtered.response_mask.any(1).tolist() == [True, True, False, True]
    assert whole.response_mask.any(1).tolist() == [True] * 4
    assert torch.equal(filtered.advantages, whole.advantages)


def test_the_overlong_penalty_shapes_advantages_and_no_verdict():
    # of at most 4 tokens the last two cost 0.25 each
    penalty = partial(overlong_penalty, config=overlong(2, 0.5), max_response_tokens=4)
    config = replace(CONFIG, normalize_by_std=False)
    group = _group(0, [4, 2, 3, 4], [1, 1, 0, 0])
    shaped = [0.5, 1.0, -0.25, -0.5]
    mean = sum(shaped) / 4
    groups = measured([group], _pass(-1.0), CPU)
    found = _rollout(groups, {0}, config, penalty=penalty).tokens.advantages.tolist()
    assert found == pytest.approx([score - mean for score in shaped])
    assert [verdict.score for verdict in groups[0].verdicts] == [1.0, 1.0, 0.0, 0.0]


def test_right_answers_of_differing_lengths_are_uninformative_whatever_the_penalty():
    group = _group(0, [4, 2, 3, 4], [1, 1, 1, 1])
    assert not group.informative("verdict")
    assert not group.informative("grade")


def test_reference_log_probs_come_from_the_reference():
    groups = measured([_group(0, [2, 1], [1, 0])], _pass(-1.0), CPU)
    tokens = _rollout(groups, {0}, reference=_pass(-3.0)).tokens
    assert tokens.ref_log_probs.tolist() == [[-3.0, -3.0], [-3.0, 0.0]]


def test_rollout_log_probs_are_those_that_the_sampler_recorded():
    group = _group(0, [2, 3], [1, 0])
    samples = tuple(
        replace(sample, log_probs=tuple(-0.5 * n for n in range(1, 1 + len(sample.token_ids))))
        for sample in group.samples
    )
    groups = measured([replace(group, samples=samples)], _pass(-1.5), CPU)
    tokens = _rollout(groups, {0}).tokens
    assert tokens.rollout_log_probs.tolist() == [[-0.5, -1.0, 0.0], [-0.5, -1.0, -1.5]]
    assert tokens.rows(torch.tensor([1])).rollout_log_probs.tolist() == [[-0.5, -1.0, -1.5]]


def test_mini_batches_hold_whole_groups_and_the_last_may_be_smaller():
    groups = measured([_group(n, [1, 2], [1, 0]) for n in range(3)], _pass(-1.0), CPU)
    parts = _rollout(groups, {0, 1, 2}).mini_batches(2)
    assert [part.tokens.group_ids.tolist() for part in parts] == [[0, 0, 1, 1], [2, 2]]
    assert [len(part.prompts) for part in parts] == [4, 2]
    assert parts[1].stats.log_probs.tolist() == [[-1.0, 0.0], [-1.0, -1.0]]


def test_the_gap_between_sampler_and_trainer_is_reported():
    groups = measured([_group(0, [1, 3], [1, 0])], _pass(-1.5), CPU)
    metrics = log_ratio_metrics(groups)
    assert metrics == {"rollout/log_ratio_abs_mean": 0.5, "rollout/log_ratio_abs_max": 0.5}
