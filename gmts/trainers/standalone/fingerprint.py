"""The identity of a training run: whatever could change its result, in one hash."""

import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

import gmts
from gmts.files import file_sha256, folder_sha256, text_sha256

_LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "sympy",
    "latex2sympy2_extended",
    "antlr4-python3-runtime",
)


def fingerprint(parts: Mapping[str, str]) -> str:
    """Return one sha256 over named parts; their order does not matter."""
    return text_sha256(json.dumps(dict(parts), sort_keys=True, ensure_ascii=False))


def code_sha256() -> str:
    """Return the sha256 over names and bytes of every Python source of gmts."""
    return folder_sha256(Path(gmts.__file__).parent, "**/*.py")


def custom_sha256(import_path: str | None) -> str:
    """Return the sha256 of the source file that `module:function` lies in; "" for None.

    Modules which that file imports are not followed.

    Raises:
        ValueError: If there is no such module.
    """
    if import_path is None:
        return ""
    name = import_path.partition(":")[0]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{import_path} names a module that cannot be found: {error}") from error
    if spec is None:
        raise ValueError(f"{import_path} names a module that cannot be found")
    if spec.origin is None or not Path(spec.origin).is_file():
        return name
    return file_sha256(Path(spec.origin))


def library_versions() -> str:
    """Return the versions of the libraries that compute, e.g. `torch 2.13.0, ...`."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES)
