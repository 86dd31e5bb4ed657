"""Every process below another, found by a mark in its environment.

Sessions and parents are not enough: a process may start a session of its own, and loses its parent
when that is killed. The environment it was started with stays.
"""

import os
import uuid

import psutil

TREE_VARIABLE = "GMTS_TREE"
"""Environment variable: the trees a process belongs to, outermost first, separated by colons."""


def new_tree() -> str:
    """Return a name for the tree of a process that is about to be started."""
    return uuid.uuid4().hex


def below(tree: str) -> str:
    """Return the value of GMTS_TREE for a process in `tree` started by this one."""
    return ":".join(filter(None, [os.environ.get(TREE_VARIABLE), tree]))


def kill_tree(tree: str) -> int:
    """Kill (SIGKILL) every process of `tree`, this one aside, and return how many there were."""
    killed = 0
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if tree in process.environ().get(TREE_VARIABLE, "").split(":"):
                process.kill()
                killed += 1
        except psutil.Error:  # gone, or another user's
            continue
    return killed
