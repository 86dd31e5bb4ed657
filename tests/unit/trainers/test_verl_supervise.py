import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from gmts.trainers.verl.supervise import CANCELLED

# A command as Ray is: it starts a server in a session of its own, which outlives it.
ORPHAN = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
DEAF = (
    "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
)
SUPERVISE = [sys.executable, "-m", "gmts.trainers.verl.supervise", sys.executable, "-c"]


def supervised(program):
    return subprocess.Popen([*SUPERVISE, program], stdin=subprocess.PIPE)


def tree_with_sleep(process):
    """Return all descendants once the sleeping one is among them."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        tree = psutil.Process(process.pid).children(recursive=True)
        if any(child.name() == "sleep" for child in tree):
            return tree
        time.sleep(0.05)
    raise AssertionError("the command has started nothing")


def gone(processes):
    return psutil.wait_procs(processes, timeout=20)[1] == []


@pytest.mark.parametrize("code", [0, 7])
def test_the_commands_exit_code_comes_back_and_nothing_is_left(code):
    process = supervised(f"{ORPHAN}; import time; time.sleep(1); sys.exit({code})")
    tree = tree_with_sleep(process)
    assert process.wait(30) == code
    process.stdin.close()
    assert gone(tree)


def test_a_closed_pipe_ends_the_tree_even_where_sigterm_is_ignored():
    process = supervised(DEAF)
    tree = tree_with_sleep(process)
    process.stdin.close()
    assert process.wait(30) == CANCELLED
    assert gone(tree)


def test_sigterm_ends_the_tree():
    process = supervised(f"{ORPHAN}; import time; time.sleep(600)")
    tree = tree_with_sleep(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == CANCELLED
    process.stdin.close()
    assert gone(tree)


def test_sigkill_of_the_caller_ends_the_tree(tmp_path):
    caller = (
        "import subprocess, sys, time;"
        f"subprocess.Popen({[*SUPERVISE, f'{ORPHAN}; import time; time.sleep(600)']!r},"
        "stdin=subprocess.PIPE, start_new_session=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", caller], env=dict(os.environ))
    tree = tree_with_sleep(process)
    process.kill()
    process.wait()
    assert gone(tree)
