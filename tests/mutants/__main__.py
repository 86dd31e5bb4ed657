"""`make mutants`: every listed fault, put into a copy of the code, must make its tests fail."""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("gmts", "flows", "examples", "tests", "configs", "params.yaml", "pyproject.toml")


def copy_tree(folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)


def caught(fault: Fault, folder: Path) -> bool:
    """Return whether the fault's tests fail on it; the copy is as before afterwards."""
    file = folder / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(
            f"{fault.name}: {fault.file} must hold its text once, got {text.count(fault.old)}"
        )
    file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", fault.tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    finally:
        file.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise ValueError(f"{fault.name}: the tests could not be run\n{done.stdout}{done.stderr}")
    return done.returncode == 1 and " error" not in done.stdout.splitlines()[-1]


def main() -> int:
    """Run every fault, one per core at a time; print each, and return 1 if one survives."""
    survivors = []
    num_copies = len(os.sched_getaffinity(0))
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def judged(fault: Fault) -> tuple[Fault, bool, float]:
        folder, start = free.get(), time.monotonic()
        try:
            return fault, caught(fault, folder), time.monotonic() - start
        finally:
            free.put(folder)

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(num_copies) as threads:
        for number in range(num_copies):
            folder = Path(name, str(number))
            folder.mkdir()
            copy_tree(folder)
            free.put(folder)
        for number, (fault, good, seconds) in enumerate(threads.map(judged, FAULTS), start=1):
            verdict = "caught" if good else "SURVIVED"
            print(
                f"{number:3}/{len(FAULTS)} {verdict:8} {fault.name} ({seconds:.0f} s)", flush=True
            )
            if not good:
                survivors.append(fault.name)
    print(f"{len(FAULTS) - len(survivors)} of {len(FAULTS)} faults caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
