"""What a machine offers to the stages."""

import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

_SUPPORTED = ((3, 11), (3, 12))
_PACKAGES = ("torch", "transformers", "datasets", "lm-eval")
_DISK_GIB = 5.0
_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    name: str
    good: bool
    found: str
    remedy: str = ""
    """What to do about it; empty where nothing is wrong."""


def check_machine(root: Path, device: str) -> list[Finding]:
    """Check interpreter, packages, disk, device and offline switches.

    Args:
        root: The clone; its file system is the one that needs room.
        device: runtime.device of params.yaml: cpu or cuda.
    """
    return [_python(), _packages(), _disk(root), _device(device), _offline()]


def _python() -> Finding:
    good = sys.version_info[:2] in _SUPPORTED
    return Finding(
        name="python",
        good=good,
        found=sys.version.split()[0],
        remedy="" if good else "use Python 3.11 or 3.12, e.g. `make install PYTHON=python3.11`",
    )


def _packages() -> Finding:
    versions, missing = [], []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return Finding(
        name="packages",
        good=not missing,
        found=", ".join(versions + [f"no {name}" for name in missing]),
        remedy="run `make install`" if missing else "",
    )


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free / 2**30
    good = free >= _DISK_GIB
    return Finding(
        name="disk",
        good=good,
        found=f"{free:.1f} GiB free at {root}",
        remedy="" if good else f"free {_DISK_GIB:.0f} GiB: `gmts clean`, `dvc gc --workspace`",
    )


def _device(device: str) -> Finding:
    import torch

    count = torch.cuda.device_count()
    names = ", ".join(torch.cuda.get_device_name(number) for number in range(count))
    good = device == "cpu" or count > 0
    return Finding(
        name="device",
        good=good,
        found=f"runtime.device={device}; {names or 'no GPU that torch can use'}",
        remedy="" if good else "set runtime.device=cpu, or install a driver and torch with CUDA",
    )


def _offline() -> Finding:
    off = [name for name in _SWITCHES if os.environ.get(name) != "1"]
    return Finding(
        name="offline",
        good=not off,
        found="stages reach no hub" if not off else f"not set to 1: {', '.join(off)}",
        remedy="unset them, and stages set them; or set them to 1" if off else "",
    )
