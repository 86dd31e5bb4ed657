"""Tries what a sandbox must not allow, and prints the list of what was possible."""

import json
import os
import resource
import socket


def main(arguments: list[str]) -> None:
    """Print the leaks of this sandbox as a JSON list."""
    del arguments
    leaks = [leak for attempt in (_network, _files, _processes, _home) if (leak := attempt())]
    print(json.dumps(leaks), flush=True)  # noqa: T201 (this is its output)


def _network() -> str | None:
    names = [name for _, name in socket.if_nameindex()]
    return None if names in ([], ["lo"]) else f"it sees the network interfaces {names}"


def _files() -> str | None:
    for folder in ("/", "/usr", "/gmts"):
        try:
            with open(os.path.join(folder, "gmts-probe"), "w", encoding="ascii"):
                return f"it can write to {folder}"
        except OSError:
            continue
    return None


def _processes() -> str | None:
    if len([name for name in os.listdir("/proc") if name.isdigit()]) > 3:
        return "it sees processes of others"
    allowed, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    children = []
    try:
        for _ in range(allowed + 1):
            child = os.fork()
            if child == 0:
                os.read(_never()[0], 1)
                os._exit(0)
            children.append(child)
    except BlockingIOError:
        return None
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return f"it can start more than {allowed} processes"


def _never() -> tuple[int, int]:
    """A pipe that nothing is written to."""
    return os.pipe()


def _home() -> str | None:
    return "it has a $HOME" if "HOME" in os.environ else None
