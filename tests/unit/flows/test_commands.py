"""Commands that refuse to start, and what they say."""

import os
import subprocess
import sys

import pytest


def flows(repository, tmp_path, *arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    environment |= {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(repository), **variables}
    return subprocess.run(
        [sys.executable, "-m", "flows", *arguments], cwd=repository, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["deploy", "status", "worker"])
def test_without_a_server_the_command_that_starts_one_is_named(repository, tmp_path, command):
    done = flows(repository, tmp_path, command)
    assert done.returncode == 2
    assert "PREFECT_API_URL must be the address of a Prefect server" in done.stderr
    assert "gmts server" in done.stderr


def test_slots_below_one_and_unknown_pools_are_refused(repository, tmp_path):
    done = flows(repository, tmp_path, "deploy", "--gpu-slots", "0")
    assert done.returncode == 2
    assert "--gpu-slots must be >= 1, got 0" in done.stderr
    done = flows(repository, tmp_path, "worker", "tpu")
    assert done.returncode == 2
    assert "'tpu'" in done.stderr


def test_a_notification_address_of_another_kind_is_refused():
    from flows.automations import notifier
    from gmts.config import ConfigError

    with pytest.raises(ConfigError, match=r"GMTS_NOTIFY must start with http:.*got 'ftp'"):
        notifier("ftp://example.org")
