import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from flows.subprocesses import process_group, stream


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_lines_are_streamed_in_order(tmp_path):
    command = ["sh", "-c", "echo one; echo two; echo $COLOUR"]
    assert list(stream(command, cwd=tmp_path, environment={"COLOUR": "red"})) == [
        "one",
        "two",
        "red",
    ]


def test_a_failure_carries_the_exit_code(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        list(stream(["sh", "-c", "exit 3"], cwd=tmp_path, environment={}))
    assert caught.value.returncode == 3


def test_grandchildren_end_with_the_block_even_if_it_fails(tmp_path):
    command = ["sh", "-c", f"{sys.executable} -c 'import time; time.sleep(600)' & echo $!; wait"]
    pids = []
    with (
        pytest.raises(RuntimeError, match="cancelled"),
        process_group(command, cwd=tmp_path, environment={}, stdout=subprocess.PIPE) as process,
    ):
        pids += [process.pid, int(process.stdout.readline())]
        assert all(alive(pid) for pid in pids)
        raise RuntimeError("cancelled")
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_stage_ends_when_the_command_above_it_is_killed(tmp_path, repository):
    stage = tmp_path / "stage.py"
    stage.write_text(
        "import os, time\n"
        "from flows.lifeline import watch_ancestors\n"
        "watch_ancestors()\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = tmp_path / "dvc"
    parent.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, {str(stage)!r}])\n")
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    with subprocess.Popen(
        [sys.executable, str(parent)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        stage_pid = int(process.stdout.readline())
        assert alive(stage_pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not alive(stage_pid))
        process.stdout.close()


def test_a_stage_whose_dvc_has_gone_before_it_could_be_watched_does_not_start(repository):
    environment = {**os.environ, "PYTHONPATH": str(repository), "DVC_STAGE": "train"}
    command = "from flows.lifeline import watch_ancestors; watch_ancestors(); print('started')"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the dvc process that started this stage has ended" in done.stderr
