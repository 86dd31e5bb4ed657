import json
from collections import Counter

import pytest

from gmts.trainers.verl.metrics import rollout_metrics, translated
from gmts.trainers.verl.records import Records, kept_length, logged_steps


def test_records_are_read_line_by_line_and_half_a_line_waits(tmp_path):
    records = Records(tmp_path / "records.jsonl")
    assert list(records.new()) == []
    first = json.dumps({"step": 1, "data": {"actor/lr": 0.5}})
    second = json.dumps({"step": 2, "data": {"actor/lr": 0.25}})
    records.path.write_text(f"{first}\n{second[:10]}")
    assert list(records.new()) == [(1, {"train/lr": 0.5})]
    records.path.write_text(f"{first}\n{second}\n")
    assert list(records.new()) == [(2, {"train/lr": 0.25})]
    assert list(records.new()) == []


def test_a_line_cut_short_by_a_kill_is_no_logged_step(tmp_path):
    file = tmp_path / "metrics.jsonl"
    assert logged_steps(file) == set()
    file.write_text('{"step": 0}\n{"step": 1}\n{"step": 2')
    assert logged_steps(file) == {0, 1}
    assert kept_length(file, None) == 0
    assert kept_length(file, 0) == len('{"step": 0}\n')
    assert kept_length(file, 1) == 2 * len('{"step": 0}\n')


def test_our_names_come_before_verls_for_the_same_thing():
    record = {
        "actor/grad_norm": 3.0,
        "actor/gmts/train/grad_norm": 2.0,
        "gmts/reward/mean": 0.5,
        "actor/loss": 7.0,
        "val-core/letters/acc/mean@2": 0.75,
        "rollout_corr/rollout_is_mean": 1.25,
        "rollout_corr/rollout_is_ratio_fraction_high": 0.125,
        "perf/anything": 1.0,
    }
    assert translated(record) == {
        "train/grad_norm": 2.0,
        "reward/mean": 0.5,
        "train/loss": 7.0,
        "validation/accuracy": 0.75,
        "rollout/is_weight_mean": 1.25,
        "rollout/is_weight_truncated": 0.125,
    }


def test_rollout_metrics_by_hand():
    def verdict(value):
        return {"reward_extra_info": {"acc": value}}

    found = rollout_metrics(
        groups=["a", "a", "b", "b"],
        lengths=[1, 3, 4, 8],
        scores=[1.0, 0.0, 0.5, 0.5],
        extras=[verdict(1.0), verdict(0.0), verdict(1.0), verdict(1.0)],
        filtered=Counter({0.0: 3, 1.0: 1}),
        num_sampled=8,
        group_size=2,
        batch_size=4,
    )
    assert found == {
        "reward/mean": 0.5,
        "reward/correct": pytest.approx((3 + 2) / (4 + 8)),
        "response/length_mean": 4.0,
        "response/length_min": 1,
        "response/length_max": 8,
        "groups/sampled": 8,
        "groups/trained": 2,
        "groups/all_wrong": 3,
        "groups/all_right": 1 + 1,
        "groups/discarded": 2,
        "rollout/batches": 2,
    }
