"""Clones of this repository as a user would have them, with an empty HOME."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

TINY = (
    "warmstart.hidden_size=16",
    "warmstart.intermediate_size=24",
    "warmstart.num_layers=1",
    "warmstart.clean_steps=20",
    "warmstart.noisy_steps=4",
    "warmstart.batch_size=16",
    "data.train_rows=60",
    "data.validation_rows=6",
    "data.test_rows=10",
    "rollout.group_size=4",
    "rollout.max_response_tokens=12",
    "train.steps=4",
    "train.questions_per_batch=4",
    "train.questions_per_mini_batch=2",
    "train.validation_every=2",
    "train.validation_samples=2",
    "train.checkpoint_every=1",
    "train.dump_every=2",
    "evaluate.samples=4",
    "evaluate.pass_at=[1, 4]",
    "evaluate.max_response_tokens=12",
    "evaluate.bootstrap_samples=200",
)
"""Overrides of the smoke preset that make the whole pipeline a matter of seconds."""


def make_clone(repository: Path, folder: Path) -> Path:
    """Return a git clone in `folder` of the files as they are in the working tree."""
    clone = folder / "clone"
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True
    ).stdout.split(b"\0")
    for name in filter(None, names):
        source = repository / name.decode()
        if source.is_file():
            target = clone / name.decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (folder / "home").mkdir(exist_ok=True)
    for command in (
        ["git", "init", "-q"],
        ["git", "add", "-A"],
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "clone"],
    ):
        run(command, clone)
    return clone


def own_interpreter(clone: Path) -> None:
    """Give the clone a virtual environment of its own, which finds the packages of this one."""
    folder = clone.parent / "venv"
    venv.create(folder, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (Path(packages) / "outer.pth").write_text(line)


def interpreter(clone: Path) -> str:
    """Return the clone's Python: its own, if it has one, or this one."""
    own = clone.parent / "venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def environment(clone: Path) -> dict[str, str]:
    """Return an environment with the clone's interpreter and nothing of the user's."""
    folders = dict.fromkeys(Path(path).parent for path in (interpreter(clone), sys.executable))
    return {
        "PATH": os.pathsep.join((*map(str, folders), os.environ["PATH"])),
        "HOME": str(clone.parent / "home"),
        "OMP_NUM_THREADS": "1",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONPATH": str(clone),
    }


def run(command: list[str], clone: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command in the clone and return it with its output, stderr included."""
    done = subprocess.run(
        command,
        cwd=clone,
        env=environment(clone),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stdout
    return done


def gmts(clone: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a `gmts` command in the clone."""
    return run([interpreter(clone), "-m", "gmts.cli", *arguments], clone, check=check)
