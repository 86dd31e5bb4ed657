import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gmts.config import ConfigError
from gmts.data.rows import write_rows
from gmts.files import file_sha256, read_json, write_json
from gmts.models.card import read_model_card
from gmts.models.folder import load_model
from gmts.stages.train import train
from gmts.trainers.standalone.dumps import read_dump
from gmts.trainers.standalone.fingerprint import code_sha256
from gmts.trainers.watch.tracking import read_metrics
from tests.support.tiny_run import put_initial, tiny_model, tiny_params, tiny_rows, tiny_workspace


def _weights(workspace, model="last"):
    return (workspace.root / "models" / model / "model.safetensors").read_bytes()


def _metrics(workspace):
    return read_metrics(workspace.train_dir / "metrics.jsonl")


def _untimed(record):
    return {k: v for k, v in record.items() if not k.startswith(("time/", "memory/"))}


def _resumed_from(result):
    return result.values["resumed_from_step"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run with every file tracker."""
    workspace = tiny_workspace(tmp_path_factory.mktemp("whole"))
    train(tiny_params(tracking__tensorboard=True, tracking__dvclive=True), workspace)
    return workspace


def test_the_same_seed_gives_bit_identical_weights_and_metrics(tmp_path):
    first, second = tiny_workspace(tmp_path / "1"), tiny_workspace(tmp_path / "2")
    for workspace in (first, second):
        train(tiny_params(), workspace)
    assert _weights(first) == _weights(second)
    assert _weights(first, "best") == _weights(second, "best")
    assert [_untimed(r) for r in _metrics(first)] == [_untimed(r) for r in _metrics(second)]
    other = tiny_workspace(tmp_path / "3")
    train(tiny_params(seed=1), other)
    assert _weights(other) != _weights(first)


def test_validating_more_often_does_not_change_training(tmp_path):
    often, seldom = tiny_workspace(tmp_path / "often"), tiny_workspace(tmp_path / "seldom")
    train(tiny_params(train__validation_every=1), often)
    train(tiny_params(train__validation_every=6), seldom)
    assert _weights(often) == _weights(seldom)
    compared = [
        [
            {k: v for k, v in _untimed(record).items() if not k.startswith("validation/")}
            for record in _metrics(workspace)
        ]
        for workspace in (often, seldom)
    ]
    assert compared[0] == compared[1]
    validated = [r["step"] for r in _metrics(seldom) if "validation/accuracy" in r]
    assert validated == [0, 6]


def test_validation_values_compare_because_their_random_numbers_are_the_same(tmp_path):
    workspace = tiny_workspace(tmp_path)
    # A rate this small leaves every sampled token as it was.
    train(tiny_params(train__optimizer__lr=1e-12, train__validation_every=1), workspace)
    assert len({r["validation/accuracy"] for r in _metrics(workspace)}) == 1


def test_outputs_are_complete_and_traceable(whole):
    report = whole.train_dir
    assert {path.name for path in report.iterdir()} == {
        "metrics.jsonl", "summary.json", "rollouts", "tensorboard", "dvclive",
    }  # fmt: skip
    assert any((report / "tensorboard").iterdir())
    assert read_json(report / "dvclive" / "metrics.json")["step"] == 6
    assert [record["step"] for record in _metrics(whole)] == list(range(7))
    summary = read_json(report / "summary.json")
    for model in ("last", "best"):
        card = read_model_card(whole.root / "models" / model)
        assert card["extra"]["step"] == summary[model]["step"]
        assert card["extra"]["validation_accuracy"] == summary[model]["validation_accuracy"]
        assert card["extra"]["fingerprint"] == summary["fingerprint"]
        assert card["extra"]["code_sha256"] == code_sha256()
        loaded = load_model(whole.root / "models" / model, "float32", "cpu")
        assert sum(p.numel() for p in loaded.parameters()) > 0
    assert summary["last"]["step"] == summary["steps"] == 6
    assert summary["optimizer_steps"] == 12
    assert summary["questions_drawn"] == 24


def test_best_is_the_earliest_of_the_highest_validation_accuracies(whole):
    accuracies = {
        r["step"]: r["validation/accuracy"] for r in _metrics(whole) if "validation/accuracy" in r
    }
    assert list(accuracies) == [0, 2, 4, 6]
    best = read_json(whole.train_dir / "summary.json")["best"]
    highest = max(accuracies.values())
    earliest = min(step for step, accuracy in accuracies.items() if accuracy == highest)
    assert best == {"step": earliest, "validation_accuracy": highest}


def test_dumps_are_capped_and_hold_prompt_response_verdict_and_advantage(whole):
    dumps = sorted((whole.train_dir / "rollouts").iterdir())
    assert [path.name for path in dumps] == ["step-000003.jsonl.gz", "step-000006.jsonl.gz"]
    responses = list(read_dump(dumps[0]))
    assert len(responses) == 5
    for response in responses:
        assert response.prompt.endswith(":")
        assert response.correct == (response.response.count("a") % 2 == 0)
        assert response.num_selected_tokens <= response.num_response_tokens <= 6
    assert responses[0].sample_id == 2 * 4 * 4  # two steps of four questions, four samples each
    group = responses[:4]
    if len({r.correct for r in group}) == 2:
        assert all((r.advantage > 0) == r.correct for r in group)


def test_only_the_newest_checkpoints_are_kept(whole):
    kept = sorted(path.name for path in whole.work_dir.glob("train/*/checkpoints/*"))
    assert kept == ["step-000004", "step-000006"]


def test_a_finished_run_is_exported_again_without_training(tmp_path):
    workspace = tiny_workspace(tmp_path)
    assert _resumed_from(train(tiny_params(), workspace)) == 0
    weights, metrics = _weights(workspace), (workspace.train_dir / "metrics.jsonl").read_bytes()
    assert _resumed_from(train(tiny_params(), workspace)) == 6
    assert _weights(workspace) == weights
    assert (workspace.train_dir / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.parametrize(
    "change",
    [{"train__optimizer__lr": 0.02}, {"seed": 5}, {"selection__ratio": 0.5}, {"train__steps": 7}],
)
def test_a_changed_parameter_never_resumes_another_run(whole, change):
    assert _resumed_from(train(tiny_params(**change), whole)) == 0


def test_changed_data_or_another_initial_model_never_resumes(tmp_path):
    workspace = tiny_workspace(tmp_path)
    train(tiny_params(), workspace)
    rows = workspace.prepared_dir / "train.parquet"
    write_rows(rows, tiny_rows(9, "train"))
    manifest = read_json(workspace.prepared_dir / "manifest.json")
    manifest["splits"]["train"]["sha256"] = file_sha256(rows)
    write_json(workspace.prepared_dir / "manifest.json", manifest)
    assert _resumed_from(train(tiny_params(), workspace)) == 0
    put_initial(workspace, tiny_model(seed=1))
    assert _resumed_from(train(tiny_params(), workspace)) == 0
    assert _resumed_from(train(tiny_params(), workspace)) == 6


def test_a_changed_own_reward_never_resumes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "own_reward_of_stage_test.py"
    code = "def reward(response, ground_truth, meta):\n    return 'a' in response\n"
    module.write_text(code)
    params = tiny_params(rewards__custom="own_reward_of_stage_test:reward")
    workspace = tiny_workspace(tmp_path / "run")
    assert _resumed_from(train(params, workspace)) == 0
    assert _resumed_from(train(params, workspace)) == 6
    module.write_text(code + "# the same in other words\n")
    assert _resumed_from(train(params, workspace)) == 0


def test_a_failing_own_reward_names_the_row_and_leaves_no_outputs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_failing_reward.py").write_text(
        "def reward(response, ground_truth, meta):\n    raise ZeroDivisionError('no')\n"
    )
    workspace = tiny_workspace(tmp_path / "run")
    with pytest.raises(ZeroDivisionError) as caught:
        train(tiny_params(rewards__custom="own_failing_reward:reward"), workspace)
    assert caught.value.__notes__ == ["while judging a response to row val-0"]
    assert not workspace.last_dir.exists()
    assert not workspace.train_dir.exists()
    assert not workspace.stage_file("train").exists()


def test_the_kl_term_is_measured_against_the_initial_policy(tmp_path):
    workspace = tiny_workspace(tmp_path)
    train(tiny_params(objective__beta=0.1), workspace)
    kl = [record["policy/kl"] for record in _metrics(workspace)[1:]]
    assert kl[0] < 0.01  # the first mini-batch of step 1 is the initial policy itself
    assert kl[-1] > kl[0]


def _no_data(workspace):
    (workspace.prepared_dir / "train.parquet").unlink()


def _corrupt_data(workspace):
    (workspace.prepared_dir / "validation.parquet").write_bytes(b"PAR1 not really")


def _no_initial(workspace):
    (workspace.initial_dir / "initial.json").unlink()


def _other_weights(workspace):
    file = workspace.initial_dir / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _other_template(workspace):
    (workspace.initial_dir / "chat_template.jinja").write_text("{{ messages[0]['content'] }}?")


def _blocked_output(workspace):
    (workspace.root / "reports").write_text("a file where a folder must be")


@pytest.mark.parametrize(
    ("spoil", "changes", "words"),
    [
        (_no_data, {}, r"train\.parquet must exist"),
        (_corrupt_data, {}, r"validation\.parquet must have the sha256"),
        (_no_initial, {}, r"initial\.json cannot be read"),
        (_other_weights, {}, "must hold the weights"),
        (_other_template, {}, "prompt template"),
        (_blocked_output, {}, "reports must be a folder that can be written"),
        (None, {"rollout__max_response_tokens": 30}, r"max_response_tokens must be <= 29, got 30"),
        (None, {"rewards__custom": "no_such_module_here:f"}, "no_such_module_here"),
        (None, {"rewards__custom": "tests.support.tiny_run:no_such_function"}, "no_such_function"),
        (None, {"tracking__mlflow": True}, "tracking.mlflow must be false"),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, monkeypatch, spoil, changes, words):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    workspace = tiny_workspace(tmp_path)
    if spoil is not None:
        spoil(workspace)
    with pytest.raises(ValueError, match=words):
        train(tiny_params(**changes), workspace)
    assert not workspace.last_dir.exists()
    assert [path.name for path in workspace.work_dir.iterdir()] == ["stages.lock"]
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_nucleus_sampling_is_refused_because_its_log_probs_would_be_of_another_support():
    with pytest.raises(ConfigError, match=r"rollout\.top_p must be 1, got 0\.9"):
        tiny_params(rollout__top_p=0.9)


def test_progress_reaches_a_log_that_is_no_terminal(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        train(tiny_params(), tiny_workspace(tmp_path))
    assert "step 6/6: reward 0." in caplog.text
    assert "live metrics are in" in caplog.text


def test_thread_count_and_determinism_are_left_as_they_were(whole):
    assert torch.are_deterministic_algorithms_enabled() is False


def test_best_weights_are_those_of_the_best_step(tmp_path):
    """A run that stops at the best step has its last weights equal to the longer run's best."""
    workspace = tiny_workspace(tmp_path / "long")
    train(tiny_params(), workspace)
    best = json.loads((workspace.train_dir / "summary.json").read_text())["best"]["step"]
    assert 0 < best < 6
    shorter = tiny_workspace(tmp_path / "short")
    train(tiny_params(train__steps=best, train__dump_every=0), shorter)
    longer_best = load_file(workspace.best_dir / "model.safetensors")
    for name, tensor in load_file(shorter.last_dir / "model.safetensors").items():
        assert torch.equal(tensor, longer_best[name])
    assert not Path(shorter.train_dir / "rollouts").exists()
