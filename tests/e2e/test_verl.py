"""The real verl trainer on two ranks: killed, resumed, exported; and data without signal."""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psutil
import pytest
import torch

from gmts.models.folder import load_model, load_tokenizer, save_model
from gmts.models.template import PromptTemplate
from gmts.trainers.verl.checkpoints import found_in, load_policy, resume_point
from gmts.trainers.verl.dumps import read_dump
from gmts.trainers.verl.environment import process_environment
from gmts.trainers.verl.launch import run
from gmts.trainers.watch.tracking import METRICS_FILE, read_metrics
from tests.support.prefect_server import free_port
from tests.support.verl_run import GROUP_SIZE, QUESTIONS, RESPONSE_TOKENS, launch_of, verl_overrides

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RANKS, STEPS, KILLED_AFTER = 2, 3, 1
RATIO = 0.2


def wait_for(condition, what, process=None, seconds=600):
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the run ended before {what}")
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def logged(launch):
    file = launch.live_dir / METRICS_FILE
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line)["step"] for line in lines if line.endswith("\n")]


def tree_of(process):
    return psutil.Process(process.pid).children(recursive=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return (folder, launch, outcome, processes of the killed run)."""
    folder = tmp_path_factory.mktemp("verl")
    overrides = verl_overrides(
        folder, steps=STEPS, ranks=RANKS, score="gmts", ratio=RATIO, rollout_is="token",
        buffer_tokens=RESPONSE_TOKENS,
    )  # fmt: skip
    launch = launch_of(folder, overrides, steps=STEPS, ranks=RANKS, kept=1)
    (folder / "overrides.json").write_text(json.dumps(overrides))
    command = [sys.executable, "-m", "tests.support.verl_start"]
    process = subprocess.Popen([*command, str(folder), str(folder / "overrides.json")])
    try:
        wait_for(lambda: KILLED_AFTER in logged(launch), "its first step", process)
        tree = tree_of(process)
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(tree, timeout=60)
    outcome = run(launch)
    return folder, launch, outcome, (tree, alive)


def test_sigkill_of_the_launcher_leaves_no_process_of_verl_or_ray(finished):
    tree, alive = finished[3]
    assert len(tree) > 10  # Ray's servers, workers, storage
    assert alive == []


def test_a_killed_run_resumes_and_logs_every_step_once(finished):
    _, launch, outcome, _ = finished
    assert outcome.kind == "finished"
    assert outcome.resumed_from >= KILLED_AFTER
    records = read_metrics(launch.live_dir / METRICS_FILE)
    assert [record["step"] for record in records] == list(range(STEPS + 1))
    assert "validation/accuracy" in records[0]
    assert "validation/accuracy" in records[-1]
    for record in records[1:]:
        assert record["groups/trained"] == QUESTIONS
        assert 0 < record["reward/mean"] < 1
        assert 0 < record["selection/fraction"] <= RATIO + 0.05
        assert record["train/grad_norm"] > 0
        assert record["train/lr"] == pytest.approx(0.01)
        assert record["rollout/probability_gap_max"] < 1e-3
        # our own sampler: the trainer's probabilities but for rounding
        assert record["rollout/is_weight_mean"] == pytest.approx(1.0, abs=1e-3)
        assert record["rollout/is_weight_truncated"] == 0.0
        # over the whole length, so that the mean penalty is minus the mean share of the limit
        expected = -record["response/length_mean"] / RESPONSE_TOKENS
        assert record["reward/overlong_mean"] == pytest.approx(expected)


def test_the_overlong_penalty_reaches_the_advantages(finished):
    """Right and wrong alone would give a group two advantages, lengths give it more."""
    found = {}
    for step in range(2 * STEPS):
        for batch, _, _ in read_dump(finished[0] / "dumps", step):
            pairs = zip(batch.group_ids.tolist(), batch.advantages.tolist(), strict=True)
            for group, advantage in pairs:
                found.setdefault((step, group), set()).add(round(advantage, 4))
    assert max(len(values) for values in found.values()) > 2


def test_the_newest_checkpoint_alone_is_kept(finished):
    _, launch, _, _ = finished
    assert [found.step for found in found_in(launch.checkpoints_dir)] == [STEPS]
    assert [path.name for path in launch.checkpoints_dir.glob("global_step_*")] == [
        f"global_step_{STEPS}"
    ]


def test_another_number_of_ranks_is_refused_with_a_reason(finished):
    _, launch, _, _ = finished
    with pytest.raises(ValueError, match=r"number of ranks must stay 2 .* got 1"):
        resume_point(launch.checkpoints_dir, range(STEPS + 1), num_ranks=1)


def test_training_changed_the_weights_and_they_export_in_the_training_dtype(finished):
    folder, launch, _, _ = finished
    policy = load_policy(found_in(launch.checkpoints_dir)[-1], "float32")
    tokenizer = load_tokenizer(folder / "model")
    (folder / "exported").mkdir()
    template = PromptTemplate.of(tokenizer, "tokenizer")
    save_model(folder / "exported", policy, tokenizer, template, {})
    exported = load_model(folder / "exported", "float32", "cpu").state_dict()
    initial = load_model(folder / "model", "float32", "cpu").state_dict()
    assert exported.keys() == initial.keys()
    for name, value in exported.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, policy.state_dict()[name]), name
    changed = [name for name in initial if not torch.equal(exported[name], initial[name])]
    assert len(changed) == len(initial)


def test_verls_own_trainer_and_engine_ran_with_our_loss(finished):
    folder, launch, _, _ = finished
    classes = read_dump(folder / "dumps", 0)[0][2]["classes"]
    assert "gmts.trainers.verl.worker.SelectingWorker" in classes
    assert "verl.workers.engine_workers.TrainingWorker" in classes
    assert "verl.workers.engine.fsdp.transformer_impl.FSDPEngineWithLMHead" in classes
    assert "TaskRunnerV1" in launch.log_file.read_text(errors="replace")


@pytest.mark.parametrize("step", range(2 * STEPS))
def test_the_selected_set_is_the_one_recomputed_from_the_dump(finished, step):
    """A plain loop over all tokens of both ranks; on-policy omega is weight x advantage."""
    parts = read_dump(finished[0] / "dumps", step)
    assert len(parts) == RANKS
    scored, chosen, samples, groups = [], set(), [], {}
    total = 0
    for batch, stats, content in parts:
        for row in range(len(batch.sample_ids)):
            sample = int(batch.sample_ids[row])
            samples.append(sample)
            groups.setdefault(int(batch.group_ids[row]), []).append(sample)
            for column in range(batch.response_mask.shape[1]):
                if not batch.response_mask[row, column]:
                    assert not content["selected"][row, column]
                    continue
                total += 1
                ratio = math.exp(
                    float(stats.log_probs[row, column]) - float(batch.old_log_probs[row, column])
                )
                advantage = float(batch.advantages[row])
                clipped = (advantage > 0 and ratio > 1.28) or (advantage < 0 and ratio < 0.8)
                gap = float(batch.old_log_probs[row, column] - batch.rollout_log_probs[row, column])
                weight = min(math.exp(gap), 2.0)
                omega = 0.0 if clipped else weight * ratio * advantage
                score = abs(omega) * float(stats.entropy[row, column])
                scored.append((score, (sample, column)))
                if content["selected"][row, column]:
                    chosen.add((sample, column))
    assert len(set(samples)) == len(samples) == QUESTIONS // 2 * GROUP_SIZE
    assert all(len(members) == GROUP_SIZE for members in groups.values())
    wanted = math.ceil(Decimal(str(RATIO)) * total)
    eligible = sum(score > 0 for score, _ in scored)
    assert len(chosen) == min(wanted, eligible)
    scored.sort(reverse=True)
    threshold = scored[len(chosen) - 1][0]
    for score, token in scored:
        if score > threshold * (1 + 1e-5):
            assert token in chosen
        elif score < threshold * (1 - 1e-5):
            assert token not in chosen


def test_data_without_signal_ends_with_the_counts_of_its_groups(tmp_path):
    overrides = verl_overrides(
        tmp_path, steps=STEPS, ranks=1, scorer="tests.support.verl_run:always_wrong", max_batches=2
    )
    launch = launch_of(tmp_path, overrides, steps=STEPS, ranks=1)
    others = set(psutil.Process().children(recursive=True))  # servers of other tests
    outcome = run(launch)
    assert outcome.kind == "no_signal"
    assert (outcome.num_all_wrong, outcome.num_all_right) == (2 * QUESTIONS, 0)
    assert f"{2 * QUESTIONS} were all wrong and 0 all right" in outcome.message
    assert "train.dynamic_sampling.max_batches" in outcome.message
    assert found_in(launch.checkpoints_dir) == []
    assert set(psutil.Process().children(recursive=True)) - others == set()


@contextmanager
def ray_cluster(folder):
    """Yield the address of a running cluster, and what tells whether it still answers."""
    ports = [free_port() for _ in range(3)]
    address = f"127.0.0.1:{ports[0]}"
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    named = {
        "node-ip-address": "127.0.0.1", "port": ports[0], "ray-client-server-port": ports[1],
        "dashboard-agent-listen-port": ports[2], "min-worker-port": 0, "max-worker-port": 0,
        "include-dashboard": "false", "num-cpus": 16, "num-gpus": 1, "temp-dir": folder,
    }  # fmt: skip
    own = process_environment("cpu", folder / "records.jsonl", 1)
    with (folder / "ray.log").open("w") as log:
        process = subprocess.Popen(
            [*ray, "start", "--head", "--block", *(f"--{k}={v}" for k, v in named.items())],
            env={**os.environ, **own}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def answers():
        status = [*ray, "status", "--address", address]
        return subprocess.run(status, capture_output=True, check=False).returncode == 0

    try:
        wait_for(answers, "a Ray cluster", process, seconds=120)
        yield address, answers
    finally:
        process.terminate()
        process.wait(60)


def test_a_running_ray_cluster_is_used_and_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # `ray start` wants a token otherwise
    overrides = verl_overrides(tmp_path, steps=1, ranks=1)
    launch = launch_of(tmp_path, overrides, steps=1, ranks=1)
    with (
        tempfile.TemporaryDirectory(prefix="ray-") as name,  # Ray's sockets want a short path
        ray_cluster(Path(name)) as (address, answers),
    ):
        outcome = run(replace(launch, ray_address=address))
        assert answers()
    assert outcome.kind == "finished"
    log = launch.log_file.read_text(errors="replace")
    port = address.rpartition(":")[2]
    assert re.search(rf"Connecting to existing Ray cluster at address: [\d.]+:{port}\b", log)
    assert [found.step for found in found_in(launch.checkpoints_dir)] == [1]
