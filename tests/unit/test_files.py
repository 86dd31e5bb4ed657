import os

import pytest

from gmts.files import (
    file_sha256,
    folder_sha256,
    new_folder,
    read_json,
    text_sha256,
    write_atomic,
    write_json,
)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomic(path, "old")

    def full_disk(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_appears_complete_or_not_at_all(tmp_path):
    target = tmp_path / "model"
    with new_folder(target) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    with pytest.raises(RuntimeError), new_folder(target) as folder:
        (folder / "b").write_text("2")
        raise RuntimeError
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a", "model"]


def test_a_new_folder_replaces_all_of_the_old_one(tmp_path):
    target = tmp_path / "model"
    for name in ("first", "second"):
        with new_folder(target) as folder:
            (folder / name).write_text(name)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["model", "second"]


def test_broken_json_is_named(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match=r"a\.json cannot be read"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON"):
        read_json(path)


def test_nan_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_hashes_are_those_of_sha256sum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256(tmp_path / "a") == expected == text_sha256("abc")


def test_a_folder_hash_follows_names_and_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    first = folder_sha256(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    second = folder_sha256(tmp_path)
    (tmp_path / "b").write_bytes(b"2")
    assert len({first, second, folder_sha256(tmp_path)}) == 3
    with pytest.raises(ValueError, match="no file that matches"):
        folder_sha256(tmp_path, "*.safetensors")
