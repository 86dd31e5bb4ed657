"""Checks one program with BigCodeBench, inside a sandbox: BigCodeBench itself isolates nothing.

It runs the program and its tests in one child of this process, so a program that attacks the tests
can forge its status; it can harm nothing else.
"""

import os
import sys

import bigcodebench.eval as checker

from gmts.rewards.guest.channel import Channel

# Of `bigcodebench.evaluate`, in MiB and seconds.
_MAX_AS, _MAX_DATA, _MAX_STACK = 30 * 1024, 30 * 1024, 10
_MIN_TIME, _GROUND_TRUTH_TIME = 1, 20


def main(arguments: list[str]) -> None:
    """Answer one request on the socket of this number, with the programs of this environment."""
    channel, environment = Channel(int(arguments[0])), arguments[1]
    # Tests write below the home, and start `python`, which has to have the packages.
    os.environ |= {"HOME": "/tmp", "PATH": f"{environment}/bin:{os.environ['PATH']}"}
    sys.executable = f"{environment}/bin/python"
    request = channel.receive()
    checker.TIMEOUT_LIMIT = request["timeout_s"]
    status, details = checker.untrusted_check(
        request["program"],
        request["test"],
        request["entry_point"],
        _MAX_AS,
        _MAX_DATA,
        _MAX_STACK,
        _MIN_TIME,
        _GROUND_TRUTH_TIME,
    )
    first = min(details, default=None)  # unittest runs tests by name
    channel.send({"status": status, "first": first, "error": str(details.get("ALL"))[:200]})
