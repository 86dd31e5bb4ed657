"""Files of a data set on the Hub, at one commit, with bytes that are those of the commit."""

import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from gmts.files import file_sha256

_CHUNK_BYTES = 1 << 20


def fetch(
    repo: str, revision: str, patterns: Sequence[str], *, key: str = "data.hub"
) -> dict[str, Path]:
    """Return name -> local file of the files of a data set that match, sorted by name.

    The endpoint is huggingface_hub's (HF_ENDPOINT), and so are the cache and the token. What the
    listing of the commit says of a file's bytes is compared with the bytes, cached ones included.

    Args:
        repo: Id of the data set, OWNER/NAME.
        revision: A commit, 40 hex digits.
        patterns: Names as of fnmatch, e.g. data/train-*.parquet.
        key: The parameter that holds them, for errors.

    Raises:
        ValueError: If there is no such data set, commit or file, or the Hub answers with another
            commit or other bytes.
        OSError: If the Hub cannot be reached or refuses.
    """
    api = HfApi()
    place = f"{repo} on {api.endpoint}"
    try:
        info = api.dataset_info(repo, revision=revision, files_metadata=True)
        if info.sha != revision:
            raise ValueError(
                f"{key}.revision must be the commit that {place} answers with, got {revision}: "
                f"the answer is {info.sha}"
            )
        names = _matching([entry.rfilename for entry in info.siblings or ()], patterns, place, key)
        listed = {entry.rfilename: entry for entry in info.siblings or ()}
        files = {}
        for name in names:
            path = hf_hub_download(repo, name, repo_type="dataset", revision=revision)
            files[name] = Path(path)
            _check_bytes(files[name], listed[name], place)
        return files
    except RevisionNotFoundError as error:
        raise ValueError(
            f"{key}.revision must be a commit of {place}, got {revision}: there is none"
        ) from error
    except (RepositoryNotFoundError, EntryNotFoundError) as error:
        raise ValueError(f"{key}.repo must be a data set that can be read, got {place}: {error}"
                         ) from error  # fmt: skip
    except OfflineModeIsEnabled as error:
        raise OSError(
            f"{place} cannot be read while HF_HUB_OFFLINE is set: set HF_HUB_OFFLINE=0, or name "
            f"local copies of the files in place of {key}"
        ) from error
    except HfHubHTTPError as error:
        raise OSError(f"{place} cannot be read: {error}") from error


def _matching(names: Sequence[str], patterns: Sequence[str], place: str, key: str) -> list[str]:
    found = sorted(
        name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
    if not found:
        raise ValueError(
            f"{key}.files must match a file of {place}, got {list(patterns)}: it has "
            f"{', '.join(sorted(names)[:20]) or 'none'}"
        )
    return found


def _check_bytes(path: Path, listed: Any, place: str) -> None:
    if listed.lfs is not None:
        expected, found = listed.lfs.sha256, file_sha256(path)
    else:
        expected, found = listed.blob_id, _git_blob_id(path)
    if found != expected:
        raise ValueError(
            f"{listed.rfilename} of {place} must have the hash {expected} of its commit, got "
            f"{found}: the file was changed or is corrupt; delete {path} and run again"
        )


def _git_blob_id(path: Path) -> str:
    """Return the id that git gives a file's bytes."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
