import json
import logging
import subprocess
import sys

import pytest
import torch

from gmts.trainers.standalone.checkpoint import Checkpoint, CheckpointStore, exclusive


def _checkpoint(step, metrics_bytes=0):
    return Checkpoint(
        weights={"w": torch.full((2, 3), float(step))},
        best_weights={"w": torch.full((2, 3), -1.0)},
        optimizer={"state": {0: {"step": torch.tensor(float(step))}}, "param_groups": []},
        carried=[{"draw": step, "texts": ("a",)}],
        counters={"step": step, "best": {"step": 1, "accuracy": 0.5}},
        metrics_bytes=metrics_bytes,
    )


def _store(folder, kept=2, fingerprint="f"):
    return CheckpointStore(folder, fingerprint=fingerprint, kept=kept)


def test_what_is_saved_comes_back(tmp_path):
    store = _store(tmp_path)
    store.save(_checkpoint(3, metrics_bytes=17))
    found = store.newest(metrics_bytes=17)
    assert torch.equal(found.weights["w"], torch.full((2, 3), 3.0))
    assert torch.equal(found.best_weights["w"], torch.full((2, 3), -1.0))
    assert found.optimizer["state"][0]["step"] == 3
    assert found.carried == [{"draw": 3, "texts": ("a",)}]
    assert found.counters == {"step": 3, "best": {"step": 1, "accuracy": 0.5}}
    assert found.metrics_bytes == 17


def test_only_the_newest_are_kept_in_numeric_order(tmp_path):
    store = _store(tmp_path, kept=2)
    for step in (5, 999_999, 1_000_000):
        store.save(_checkpoint(step))
    assert store.steps() == [999_999, 1_000_000]
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_old_checkpoint_survives_a_write_that_fails(tmp_path):
    store = _store(tmp_path, kept=1)
    store.save(_checkpoint(1))
    broken = _checkpoint(2)
    object.__setattr__(broken, "carried", [lambda: None])  # cannot be pickled
    with pytest.raises((AttributeError, TypeError, RuntimeError)):
        store.save(broken)
    assert store.steps() == [1]
    assert store.newest(metrics_bytes=0).counters["step"] == 1


@pytest.mark.parametrize("name", ["policy.safetensors", "state.pt", "best.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "missing", "flipped"])
def test_a_damaged_checkpoint_is_ignored_and_named(tmp_path, caplog, name, damage):
    store = _store(tmp_path)
    store.save(_checkpoint(1))
    store.save(_checkpoint(2))
    file = tmp_path / "step-000002" / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[-1] ^= 1
        file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert store.newest(metrics_bytes=0).counters["step"] == 1
    assert "step-000002" in caplog.text
    assert name in caplog.text


def test_a_folder_without_manifest_is_ignored(tmp_path):
    store = _store(tmp_path)
    store.save(_checkpoint(1))
    (tmp_path / "step-000009").mkdir()
    assert store.newest(metrics_bytes=0).counters["step"] == 1


def test_a_checkpoint_ahead_of_the_metrics_file_is_ignored(tmp_path):
    store = _store(tmp_path)
    store.save(_checkpoint(1, metrics_bytes=10))
    store.save(_checkpoint(2, metrics_bytes=20))
    assert store.newest(metrics_bytes=19).counters["step"] == 1
    assert store.newest(metrics_bytes=9) is None


def test_a_checkpoint_of_another_run_is_never_used(tmp_path):
    _store(tmp_path, fingerprint="one").save(_checkpoint(1))
    assert _store(tmp_path, fingerprint="two").newest(metrics_bytes=0) is None


def test_another_schema_version_is_refused_with_the_cure(tmp_path):
    store = _store(tmp_path)
    store.save(_checkpoint(1))
    manifest = tmp_path / "step-000001" / "checkpoint.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": 99}))
    with pytest.raises(ValueError, match=r"schema_version must be 1, got 99.*delete"):
        store.newest(metrics_bytes=0)


def test_left_over_parts_of_a_killed_write_are_cleared(tmp_path):
    store = _store(tmp_path)
    store.save(_checkpoint(1))
    (tmp_path / ".step-000002.abc").mkdir()
    (tmp_path / ".step-000002.abc" / "policy.safetensors").write_bytes(b"half")
    store.clear_leftovers()
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_a_run_folder_belongs_to_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("gmts.trainers.standalone.checkpoint._LOCK_PATIENCE_S", 0.3)
    code = (
        "import fcntl, sys\n"
        f"file = open({str(tmp_path / 'lock')!r}, 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match="another process"), exclusive(tmp_path):
            pass
        other.kill()
    with exclusive(tmp_path):
        pass
