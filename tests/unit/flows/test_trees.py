import os
import signal
import subprocess
import sys

import psutil

from flows.subprocesses import process_group
from flows.trees import TREE_VARIABLE, below, kill_tree, new_tree

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_process_in_a_session_of_its_own_ends_with_the_block_that_started_its_parent(tmp_path):
    start = f"import subprocess; p = subprocess.Popen({SLEEP!r}, start_new_session=True); "
    command = [sys.executable, "-c", start + "print(p.pid, flush=True); p.wait()"]
    with process_group(command, cwd=tmp_path, environment={}, stdout=subprocess.PIPE) as process:
        stray = psutil.Process(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert stray.is_running()
    assert stray.wait(10) is None or not stray.is_running()


def test_only_the_tree_that_is_named_is_killed(monkeypatch):
    mine, other = new_tree(), new_tree()
    with (
        subprocess.Popen(SLEEP, env={**os.environ, TREE_VARIABLE: f"{mine}:inner"}) as first,
        subprocess.Popen(SLEEP, env={**os.environ, TREE_VARIABLE: other}) as second,
    ):
        assert kill_tree(mine) == 1
        assert first.wait(10) == -signal.SIGKILL
        assert second.poll() is None
        assert kill_tree(other) == 1
    monkeypatch.setenv(TREE_VARIABLE, "outer")
    assert below("inner") == "outer:inner"
