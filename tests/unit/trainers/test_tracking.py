import json
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmts.trainers.config import TrackingConfig
from gmts.trainers.watch.tracking import (
    METRICS_FILE,
    Run,
    RunLog,
    check_trackers,
    metrics_bytes,
    open_trackers,
    read_metrics,
)


def _config(**changes):
    values = {"tensorboard": False, "dvclive": False, "wandb": False, "mlflow": False}
    return TrackingConfig(**(values | changes), project="p")


def _run(folder):
    return Run(folder=folder, project="p", run_id="r", settings={})


def _log(folder, length=0, **trackers):
    return RunLog(folder, length=length, trackers=open_trackers(_config(**trackers), _run(folder)))


def test_metrics_file_holds_one_json_object_per_step(tmp_path):
    log = _log(tmp_path)
    log.log(0, {"b": 0.1, "a": 1})
    log.log(1, {"a": 1e-300})
    assert log.synced_bytes() == metrics_bytes(tmp_path)
    log.close()
    lines = (tmp_path / METRICS_FILE).read_text().splitlines()
    assert lines == ['{"step": 0, "a": 1, "b": 0.1}', '{"step": 1, "a": 1e-300}']
    assert read_metrics(tmp_path / METRICS_FILE)[1] == {"step": 1, "a": 1e-300}


def test_nan_is_refused_rather_than_written_as_broken_json(tmp_path):
    log = _log(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        log.log(1, {"a": float("nan")})
    log.close()


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / METRICS_FILE).write_text('{"step": 0}\n{"step": \n')
    with pytest.raises(ValueError, match="line 2"):
        read_metrics(tmp_path / METRICS_FILE)


def test_a_resumed_log_drops_later_steps_and_tells_them_again(tmp_path):
    log = _log(tmp_path, tensorboard=True, dvclive=True)
    log.log(1, {"reward/mean": 0.25})
    length = log.synced_bytes()
    log.log(2, {"reward/mean": 0.5, "extra/late": 1.0})
    log.close()

    log = _log(tmp_path, length=length, tensorboard=True, dvclive=True)
    log.log(2, {"reward/mean": 0.75})
    log.close()
    assert [r["reward/mean"] for r in read_metrics(tmp_path / METRICS_FILE)] == [0.25, 0.75]
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["reward/mean"]
    assert [(e.step, e.value) for e in events.Scalars("reward/mean")] == [(1, 0.25), (2, 0.75)]
    history = (tmp_path / "dvclive" / "plots" / "metrics" / "reward" / "mean.tsv").read_text()
    assert history.splitlines() == ["step\tmean", "1\t0.25", "2\t0.75"]
    summary = json.loads((tmp_path / "dvclive" / "metrics.json").read_text())
    assert summary == {"reward": {"mean": 0.75}, "step": 2}


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_without_its_package_is_refused_with_the_cure(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=rf"tracking\.{name} must be false.*pip install {name}"):
        check_trackers(_config(**{name: True}))


def test_packages_of_trackers_that_are_off_are_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    check_trackers(_config(tensorboard=True, dvclive=True))


def test_dvclive_works_in_a_git_repository_without_commits(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".dvc").mkdir()
    monkeypatch.chdir(tmp_path)
    log = _log(tmp_path / "work", dvclive=True)
    log.log(1, {"reward/mean": 0.5})
    log.close()
    assert (tmp_path / "work" / "dvclive" / "metrics.json").is_file()


def test_dvclive_leaves_git_and_the_pipeline_file_alone(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    (tmp_path / ".gitignore").write_text("work/\n/.dvc/tmp\n")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    git("add", "-A")
    git("commit", "-q", "-m", "start")
    monkeypatch.chdir(tmp_path)
    # As under `dvc exp run`, where DVCLive would add its folder to git.
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", git("rev-parse", "HEAD").strip())
    monkeypatch.setenv("DVC_EXP_NAME", "some-name")

    log = _log(tmp_path / "work", dvclive=True)
    log.log(1, {"reward/mean": 0.5})
    log.close()
    assert (tmp_path / "work" / "dvclive" / "metrics.json").is_file()
    assert git("status", "--porcelain", "--untracked-files=all") == ""
    assert git("for-each-ref").count("\n") == 1
    assert (tmp_path / "dvc.yaml").read_text() == "stages: {}\n"
    assert not (tmp_path / ".dvc" / "tmp" / "exps").exists()
