"""C29: the whole pipeline where every socket but loopback is blocked and watched."""

import json
import subprocess
import sys

import pytest

from tests.support.clones import TINY, environment, make_clone

pytestmark = pytest.mark.slow

WATCH = """
import ipaddress, os, sys

def loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "", None)

def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if not loopback(host):
        with open(os.environ["WATCH_FILE"], "a") as file:
            file.write(f"{event} {host} {sys.argv}\\n")
        raise OSError(f"blocked: {host}")

sys.addaudithook(watch)
"""


@pytest.fixture(scope="module")
def blocked(repository, tmp_path_factory):
    """A clone, the environment that blocks, and the file that attempts are noted in."""
    folder = tmp_path_factory.mktemp("offline")
    clone = make_clone(repository, folder)
    (folder / "watch").mkdir()
    (folder / "watch" / "sitecustomize.py").write_text(WATCH)
    attempts = folder / "attempts"
    variables = environment(clone)
    variables |= {
        "PYTHONPATH": f"{folder / 'watch'}:{variables['PYTHONPATH']}",
        "WATCH_FILE": str(attempts),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "no-cache"),
    }
    return clone, variables, attempts


def called(clone, variables, *command):
    return subprocess.run(
        [sys.executable, *command], cwd=clone, env=variables, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


def test_c29_the_whole_pipeline_tries_to_reach_nothing(blocked):
    clone, variables, attempts = blocked
    done = called(clone, variables, "-m", "gmts.cli", "run", "--preset", "smoke", *TINY)
    assert done.returncode == 0, done.stdout
    assert json.loads((clone / "reports" / "summary.json").read_text())["questions"] == 10
    assert not attempts.exists(), attempts.read_text()
    # the watch itself: what tries is noted and stopped
    command = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=1)"
    assert "blocked: 192.0.2.1" in called(clone, variables, "-c", command).stdout
    assert "192.0.2.1" in attempts.read_text()


def test_c29_a_missing_model_is_named_at_once_with_the_offline_switch(blocked):
    clone, variables, _ = blocked
    before = (clone / "params.yaml").read_bytes()
    done = called(clone, variables, "-m", "gmts.cli", "run", "model.path=/nowhere/model")
    assert done.returncode == 2
    assert "model.path" in done.stdout
    assert "/nowhere/model" in done.stdout
    assert "HF_HUB_OFFLINE" in done.stdout
    assert (clone / "params.yaml").read_bytes() == before
