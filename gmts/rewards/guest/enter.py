"""Takes the limits on, gives root away, then runs one module of this package.

Run as a script: enter.py SETUP ENTRY [ARGUMENT ...], SETUP being JSON.
"""

import builtins
import importlib
import json
import os
import resource
import sys
from typing import Any


def limit(limits: dict[str, int]) -> None:
    """Set the limits of this process and of all that it starts."""
    mib = 1 << 20
    for name, value in (
        (resource.RLIMIT_AS, limits["memory_mib"] * mib),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["file_mib"] * mib),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (value, value))


def become(uid: int) -> None:
    """Become a user without any right; the kernel exempts root from the limit on processes."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def main(arguments: list[str]) -> None:
    """Prepare this process and run the entry module's main."""
    setup: dict[str, Any] = json.loads(arguments[0])
    sys.path.insert(0, "/gmts")
    sys.path.extend(setup["packages"])
    if setup["uid"] is not None:
        become(setup["uid"])
    limit(setup["limits"])
    # `site` defines these; it is not loaded, for it would run the .pth files of the packages.
    for name in ("exit", "quit"):
        setattr(builtins, name, sys.exit)
    importlib.import_module(f"gmts.rewards.guest.{arguments[1]}").main(arguments[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
