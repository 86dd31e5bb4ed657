import json
import shutil
import subprocess
import sys

import pytest

from tests.support.exams import entry


@pytest.fixture
def clone(repository, tmp_path):
    shutil.copytree(repository / "configs", tmp_path / "configs")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(repository / name, tmp_path / name)
    return tmp_path


def gmts(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "gmts.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_help_names_every_command(clone):
    done = gmts("--help", cwd=clone)
    assert done.returncode == 0
    for command in (
        "run", "config", "prepare", "train", "evaluate", "publish", "generate", "runs", "clean",
        "score", "rescore", "inspect",
    ):  # fmt: skip
        assert command in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "selection.ratio=0"], "selection.ratio must be in (0, 1], got 0"),
        (["run", "selection.ratio=nan"], "selection.ratio must be a number, got 'nan'"),
        (["run", "--preset", "smok"], "preset must be one of"),
        (
            ["run", "rewards.scorer=custom", "rewards.custom=nowhere:reward"],
            "rewards.custom must name an importable module, got 'nowhere:reward'",
        ),
        (
            ["run", f"benchmarks.amc23={json.dumps(entry('gone.jsonl', custom=None))}"],
            "benchmarks.amc23.path must name a file, got",
        ),
        (
            ["run", f"benchmarks.amc23={json.dumps(entry('gone.jsonl', custom='nowhere:f'))}"],
            "benchmarks.amc23.custom must name an importable module, got 'nowhere:f'",
        ),
        (
            ["run", "selection.score=custom", "selection.custom=math:tau"],
            "selection.custom must name a function of math, got 'math:tau'",
        ),
        (["config", "use", "smoke", "nowhere.x=1"], "there is no section nowhere"),
        (["config", "use", "smoke", "papr"], "preset must be one of"),
        (
            ["run", "train.backend=verl", "verl.tensor_parallel=2"],
            "verl.tensor_parallel must be a divisor of verl.ranks_per_node (1)",
        ),
        (["config", "set", "selection.ration=1"], "did you mean selection.ratio?"),
        (["runs", "show", "nothing"], "run must be one of (none yet), got 'nothing'"),
        (["generate", "2 + 2", "--model", "nowhere"], "nowhere"),
        (["inspect", "eval", "nowhere"], "nowhere must be a folder with scores.json"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_message(clone, arguments, message):
    before = (clone / "params.yaml").read_bytes()
    done = gmts(*arguments, cwd=clone)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert (clone / "params.yaml").read_bytes() == before


def test_a_folder_that_is_no_clone_is_refused(tmp_path):
    done = gmts("run", cwd=tmp_path)
    assert done.returncode == 2
    assert "must be the root of a gmts clone" in done.stderr


def test_a_work_folder_that_cannot_be_written_is_named_before_any_work(clone):
    (clone / "work").touch()
    done = gmts("run", cwd=clone)
    assert done.returncode == 2
    assert f"Not a directory: '{clone / 'work' / 'prefect'}'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (clone / "reports").exists()


def test_config_show_prints_values_with_their_origin(clone):
    gmts("config", "set", "selection.ratio=0.1", cwd=clone)
    done = gmts("config", "show", cwd=clone)
    line = next(line for line in done.stdout.splitlines() if line.startswith("selection.ratio"))
    assert line.split(None, 2)[1:] == ["0.1", "changed (smoke has 0.2)"]


def test_clean_says_so_when_there_is_nothing_to_clean(clone):
    done = gmts("clean", cwd=clone)
    assert done.returncode == 0
    assert "Nothing to clean" in done.stdout
