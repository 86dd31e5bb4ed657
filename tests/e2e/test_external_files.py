"""`gmts prepare` notices that a file which dvc.yaml cannot list has other rows."""

import json

import pytest

from tests.support.clones import TINY, gmts, make_clone

pytestmark = pytest.mark.slow


def write(path, count):
    rows = [{"question": f"Question number {i}?", "answer": str(i)} for i in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)))


def rows(clone):
    manifest = json.loads((clone / "data/prepared/manifest.json").read_text())
    return manifest["pools"]["train"]["rows"]


def test_a_changed_file_is_prepared_again_and_an_unchanged_one_is_not(repository, tmp_path):
    clone = make_clone(repository, tmp_path)
    write(clone / "train.jsonl", 40)
    write(clone / "test.jsonl", 8)
    own = (
        "data.source=local",
        "data.files={train: train.jsonl, validation: null, test: test.jsonl}",
        "data.max_prompt_tokens=500",
    )
    gmts(clone, "prepare", "--preset", "smoke", *TINY, *own)
    assert rows(clone) == 40
    assert "Everything is up to date." in gmts(clone, "prepare").stdout
    write(clone / "train.jsonl", 50)
    done = gmts(clone, "prepare").stdout
    assert "train.jsonl has changed since it was read." in done
    assert rows(clone) == 50
    assert "Everything is up to date." in gmts(clone, "prepare").stdout
    # DVC brings back what it made of the 40 rows; the rows are those of the file all the same.
    gmts(clone, "prepare", "data.train_rows=30")
    write(clone / "train.jsonl", 60)
    gmts(clone, "prepare", "data.train_rows=60")
    assert rows(clone) == 60
    assert "Everything is up to date." in gmts(clone, "prepare").stdout
