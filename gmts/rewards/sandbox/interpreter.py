"""The Python that a sandbox shows: ours, or that of a tool in an environment of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python and what it reads of the file system."""

    executable: str
    """Of the installation, with links resolved; not the link of a virtual environment."""
    folders: tuple[str, ...]
    """Its installation, and the environment or the packages."""
    packages: tuple[str, ...]
    """Where its packages lie; `site` and its .pth files are not run in a sandbox."""

    @classmethod
    def own(cls) -> Self:
        """Return the one that runs here, with its packages only."""
        packages = _package_dirs(sys.path)
        return cls(
            executable=os.path.realpath(sys._base_executable),  # type: ignore[attr-defined]
            folders=(os.path.realpath(sys.base_prefix), *packages),
            packages=packages,
        )

    @classmethod
    def of(cls, python: Path) -> Self:
        """Return that of another environment, which is asked.

        Raises:
            ValueError: If there is none, or it does not start.
        """
        try:
            done = subprocess.run(
                [python, "-I", "-c", _QUESTION],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"{python} must be a Python that starts: {error}") from error
        executable, base, environment, path = json.loads(done.stdout)
        return cls(
            executable=os.path.realpath(executable),
            folders=(os.path.realpath(base), environment),
            packages=_package_dirs(path),
        )


_QUESTION = (
    "import json, sys; "
    "print(json.dumps([sys._base_executable, sys.base_prefix, sys.prefix, sys.path]))"
)


def _package_dirs(path: list[str]) -> tuple[str, ...]:
    names = ("site-packages", "dist-packages")
    return tuple(entry for entry in path if Path(entry).name in names and Path(entry).is_dir())
