"""Runs a program that reads standard input and writes standard output, as `python program.py`."""

import builtins
import linecache
import os
import socket
import sys
import types


def run_script(descriptor: int, source: str) -> None:
    """Run `source` as __main__ between two descriptors that come over the socket, and exit.

    The process ends as any Python program does: it waits for its threads, runs what atexit holds,
    and its exit status says whether it raised.
    """
    with socket.socket(fileno=os.dup(descriptor)) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
    for target, given in enumerate(descriptors):
        os.dup2(given, target)
        os.close(given)
    os.close(descriptor)
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__="solution.py")
    sys.modules["__main__"] = main
    sys.argv = ["solution.py"]
    linecache.cache["solution.py"] = (len(source), None, source.splitlines(True), "solution.py")
    exit_code = _run(source, main)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        exit_code = 1
    sys.exit(exit_code)


def _run(source: str, main: types.ModuleType) -> int | str | None:
    try:
        exec(compile(source, "solution.py", "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        code = error.code
        return code if isinstance(code, int | str | None) else 1
    except BaseException:  # noqa: BLE001 (the program's own failure is its exit status)
        return 1
    return 0
