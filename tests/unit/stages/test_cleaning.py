import fcntl

import pytest

from gmts.config import STAGE_SECTIONS, load_params, params_hash
from gmts.files import write_json
from gmts.stages.cleaning import delete_removable, removable
from gmts.stages.workspace import Workspace, stage_run


def state(root, fingerprint):
    folder = root / "work" / "train" / fingerprint
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"0" * 2**20)
    (folder / "lock").touch()
    return folder


def test_only_states_of_other_experiments_are_removable(tmp_path):
    current, other, running = (state(tmp_path, name) for name in ("current", "other", "running"))
    write_json(tmp_path / "reports" / "train" / "summary.json", {"fingerprint": "current"})
    with (running / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = removable(tmp_path)
        assert delete_removable(tmp_path) == found
    assert [item.path for item in found] == [other]
    assert found[0].size_mib == 1.0
    assert not other.exists()
    assert current.exists()
    assert running.exists()


def test_the_state_of_an_interrupted_run_of_params_yaml_is_kept(tmp_path, repository):
    (tmp_path / "params.yaml").write_bytes((repository / "params.yaml").read_bytes())
    params = load_params(tmp_path / "params.yaml")
    interrupted, other = state(tmp_path, "interrupted"), state(tmp_path, "other")
    identity = {"params": params_hash(params, STAGE_SECTIONS["train"])}
    write_json(interrupted / "identity.json", identity)
    assert [item.path for item in removable(tmp_path)] == [other]


def test_responses_of_models_that_no_score_is_of_are_removable(tmp_path):
    for name in ("now", "then"):
        (tmp_path / "work" / "eval-cache" / name).mkdir(parents=True)
    scores = tmp_path / "reports" / "evaluation" / "last" / "scores.json"
    write_json(scores, {"sampling_sha256": "now"})
    found = removable(tmp_path)
    assert [item.path.name for item in found] == ["then"]
    assert found[0].reason == "responses sampled from another model"


def test_parts_of_interrupted_writes_are_removable(tmp_path):
    leftovers = [
        tmp_path / "models" / ".last.abc123",
        tmp_path / "reports" / "evaluation" / ".last.abc123",
    ]
    for leftover in leftovers:
        leftover.mkdir(parents=True)
        leftover.with_name("last").mkdir()
    assert [item.path for item in removable(tmp_path)] == leftovers


def test_nothing_is_deleted_while_a_stage_runs(tmp_path):
    written = tmp_path / "models" / ".last.abc123"
    written.mkdir(parents=True)
    with (
        stage_run("evaluate", Workspace(tmp_path)),
        pytest.raises(ValueError, match="must have no running stage"),
    ):
        delete_removable(tmp_path)
    assert written.exists()
    assert [item.path for item in delete_removable(tmp_path)] == [written]
