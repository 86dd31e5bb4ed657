"""Files that are complete or absent, and hashes of what they hold."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write `content` to `path` so that a reader or a crash sees the old file or the new one.

    Raises:
        OSError: If the folder cannot be made or written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity are refused."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_atomic(path, text + "\n")


def read_json(path: Path) -> Any:
    """Return the JSON value in `path`.

    Raises:
        ValueError: If the file cannot be read or holds no JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


@contextmanager
def locked(path: Path, *, shared: bool) -> Iterator[None]:
    """Hold a lock on `path`, made if it is not there, for the block or until the process ends.

    Args:
        path: A file for this alone.
        shared: Wait, and hold it beside other sharers; else hold it alone or not at all.

    Raises:
        BlockingIOError: If it was wanted alone and somebody holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that becomes `path` once the block succeeds.

    What `path` held before is deleted only after the new folder is complete and in place; on an
    exception the temporary folder is removed and `path` is untouched.

    Raises:
        OSError: If the parent cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        os.chmod(temporary, 0o755)
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        old = temporary.with_name(f"{temporary.name}.old")
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        _sync_folder(path.parent)
        if old.exists():
            shutil.rmtree(old)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def folder_sha256(folder: Path, pattern: str = "**/*") -> str:
    """Return one sha256 over the relative names and bytes of the files that match `pattern`.

    Raises:
        ValueError: If no file matches.
    """
    files = sorted(file for file in folder.glob(pattern) if file.is_file())
    if not files:
        raise ValueError(f"{folder} holds no file that matches {pattern}")
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file_sha256(file)}\n".encode())
    return digest.hexdigest()


def text_sha256(text: str) -> str:
    """Return the sha256 of UTF-8 text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
