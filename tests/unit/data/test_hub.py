"""Hub access against a server on the loopback; the Hub itself is not asked."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.support.hub_server import HubRepo, serve_hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [{"problem": f"What is {i} plus one?", "answer": str(i + 1)} for i in range(12)]
FETCH = """
import json, sys
from gmts.data.hub import fetch
try:
    files = fetch("hiyouga/math12k", sys.argv[1], ["data/train-*.parquet", "*.md"])
    print(json.dumps({name: str(path) for name, path in files.items()}))
except (ValueError, OSError) as error:
    print(type(error).__name__, error)
"""


def parquet_bytes(rows):
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    return stream.getvalue()


@pytest.fixture
def repo():
    return HubRepo(
        name="hiyouga/math12k",
        commit=COMMIT,
        files={
            "README.md": b"# A card\n",
            "data/train-00000-of-00001.parquet": parquet_bytes(ROWS),
            "data/test-00000-of-00001.parquet": parquet_bytes(ROWS[:1]),
        },
    )


def ask(repo, home, *, revision=COMMIT, program=FETCH, **environment):
    """Run a program in a process of its own: huggingface_hub reads its settings on import."""
    with serve_hub(repo) as address:
        return subprocess.run(
            [sys.executable, "-c", program, revision],
            env={
                **os.environ,
                "HF_ENDPOINT": address,
                "HF_HOME": str(home),
                "HF_HUB_OFFLINE": "0",
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "NO_PROXY": "127.0.0.1",
                "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
                **environment,
            },
            cwd=home,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()


def test_the_files_of_the_pinned_commit_are_read_and_others_left(repo, tmp_path):
    files = json.loads(ask(repo, tmp_path))
    assert list(files) == ["README.md", "data/train-00000-of-00001.parquet"]
    for name, path in files.items():
        assert Path(path).read_bytes() == repo.files[name]
    assert not any("test-00000" in request for request in repo.requests)


def test_a_commit_that_the_hub_does_not_have_is_refused(repo, tmp_path):
    answer = ask(repo, tmp_path, revision="f" * 40)
    assert answer.startswith(f"ValueError data.hub.revision must be a commit of {repo.name} on ")
    assert answer.endswith(f"got {'f' * 40}: there is none")


def test_an_answer_with_another_commit_is_refused(repo, tmp_path):
    repo.answered_commit = "e" * 40
    answer = ask(repo, tmp_path)
    assert "data.hub.revision must be the commit that hiyouga/math12k on" in answer
    assert answer.endswith(f"got {COMMIT}: the answer is {'e' * 40}")


@pytest.mark.parametrize("name", ["README.md", "data/train-00000-of-00001.parquet"])
def test_bytes_that_are_not_the_commits_are_refused(repo, tmp_path, name):
    content = repo.files[name]
    repo.served[name] = content[:-1] + bytes([content[-1] ^ 1])
    answer = ask(repo, tmp_path)
    assert f"ValueError {name} of hiyouga/math12k on" in answer
    assert "must have the hash" in answer


def test_a_changed_file_in_the_cache_is_refused(repo, tmp_path):
    path = Path(json.loads(ask(repo, tmp_path))["README.md"]).resolve()
    path.write_bytes(b"# Another\n")
    assert "README.md of hiyouga/math12k on" in ask(repo, tmp_path)


def test_a_missing_set_or_file_and_no_network_are_named(repo, tmp_path):
    repo.files.pop("README.md")
    repo.files.pop("data/train-00000-of-00001.parquet")
    assert "ValueError data.hub.files must match a file of hiyouga/math12k" in ask(repo, tmp_path)
    repo.name = "somebody/else"
    assert "ValueError data.hub.repo must be a data set that can be read" in ask(repo, tmp_path)
    offline = ask(repo, tmp_path, HF_HUB_OFFLINE="1")
    assert offline.startswith("OSError hiyouga/math12k on ")
    assert "set HF_HUB_OFFLINE=0" in offline


PREPARE = """
import json, sys
from pathlib import Path
from gmts.data.rows import read_rows
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from tests.support.sections import params
commit, root = sys.argv[1], Path("clone")
hub = {"repo": None, "revision": commit, "files": None}
for rows in (12, 13):
    settings = params(
        data__source="hub", data__set="math12k", data__validation_rows=2, data__test_rows=3,
        data__hub=hub, data__expected={"rows": rows, "sha256": None},
    )
    try:
        prepare(settings, Workspace(root))
    except ValueError as error:
        print(error)
for split in ("train", "validation", "test"):
    print(len(read_rows(root / f"data/prepared/{split}.parquet")))
"""


def test_prepare_from_the_hub_holds_rows_out_and_refuses_other_rows_than_expected(repo, tmp_path):
    refusal, *counts = ask(repo, tmp_path, program=PREPARE).splitlines()
    assert refusal.startswith("data.expected.rows must be that of the training files (12), got 13")
    assert counts == ["7", "2", "3"]
    manifest = json.loads((tmp_path / "clone/data/prepared/manifest.json").read_text())
    assert manifest["hub"]["revision"] == COMMIT
    assert list(manifest["hub"]["files"]) == ["data/train-00000-of-00001.parquet"]
    assert manifest["pools"]["train"]["rows_read"] == 12
