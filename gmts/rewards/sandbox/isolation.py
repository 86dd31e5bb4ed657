"""The command line that isolates a program, and the proof that it does.

bubblewrap makes the namespaces (user, net, pid, ipc, uts, mount) and a root of its own: the
interpreter and its libraries read-only, a /tmp of its own, and nothing else of the file system. The
guest (gmts.rewards.guest.enter) then sets the limits and, where it was started as root, becomes a
user of its own: the kernel counts no processes for root.
"""

import functools
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gmts.rewards.sandbox.interpreter import Interpreter

_GUEST = Path(__file__).parent.parent / "guest"
_GUEST_ROOT = "/gmts"
_PROBE_TIMEOUT_S = 60.0
# Ids of no account: above every range that adduser and subuid hand out.
_FIRST_UID = 0x60000000
_MOUNTED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class IsolationError(RuntimeError):
    """Code cannot be run in isolation here, so it is not run; the message names the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one sandbox may use."""

    memory_mib: int = 2048
    """Address space of each process."""
    cpu_s: int = 30
    """Processor time of each process; the wall clock ends most programs earlier."""
    file_mib: int = 16
    """Size of each file."""
    tmp_mib: int = 64
    """All of /tmp."""
    open_files: int = 64
    processes: int = 16
    """Processes and threads together."""


def bubblewrap() -> str:
    """Return the path of bwrap.

    Raises:
        IsolationError: If it is not installed.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise IsolationError(
            "running code needs bubblewrap, which is not installed: `apt-get install bubblewrap` "
            "(or dnf, pacman: bubblewrap)"
        )
    return path


def sandbox_command(
    entry: str,
    arguments: Sequence[str],
    *,
    limits: Limits,
    gives_root_away: bool,
    info_fd: int | None = None,
    interpreter: Interpreter | None = None,
) -> list[str]:
    """Return the command that runs the guest module `entry` with `arguments` in a new sandbox.

    Args:
        entry: Module of gmts.rewards.guest, whose main(arguments) is called.
        arguments: Handed to it.
        limits: What the sandbox may use.
        gives_root_away: As check_isolation found: no user namespace is made, and the guest becomes
            an ordinary user by itself.
        info_fd: Where bubblewrap writes its child's process id; None for nowhere.
        interpreter: Runs the guest; None for the one that runs here.

    Raises:
        IsolationError: If bubblewrap is not installed.
    """
    python = interpreter or Interpreter.own()
    command = [bubblewrap(), "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--hostname", "sandbox"]
    if not gives_root_away:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    if info_fd is not None:
        command += ["--info-fd", str(info_fd)]
    # First: the interpreter's packages may lie below /tmp, and are mounted into this one.
    command += ["--size", str(limits.tmp_mib << 20), "--perms", "1777", "--tmpfs", "/tmp"]
    command += _mounts(python)
    command += ["--proc", "/proc", "--dev", "/dev"]
    # multiprocessing keeps its locks there.
    command += ["--size", str(limits.tmp_mib << 20), "--perms", "1777", "--tmpfs", "/dev/shm"]
    command += ["--remount-ro", "/", "--chdir", "/tmp"]
    for name, value in _ENVIRONMENT.items():
        command += ["--setenv", name, value]
    setup = {
        "limits": asdict(limits),
        "packages": python.packages,
        "uid": _FIRST_UID + secrets.randbelow(1 << 24) if gives_root_away else None,
    }
    run = [python.executable, "-S", "-s", "-P", "-B", f"{_GUEST_ROOT}/gmts/rewards/guest/enter.py"]
    return [*command, "--", *run, json.dumps(setup), entry, *arguments]


_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}


@functools.cache
def check_isolation() -> bool:
    """Prove once per process that a sandbox isolates: no network, no writing, few processes.

    Returns:
        Whether sandboxes give root away (gives_root_away of sandbox_command): real root does so,
        and everybody else, root of a container included, makes a user namespace.

    Raises:
        IsolationError: If no way isolates; the message names the package or the kernel setting.
    """
    problems = []
    for gives_root_away in (True, False) if os.geteuid() == 0 else (False,):
        problem = _problem(gives_root_away)
        if problem is None:
            return gives_root_away
        problems.append(problem)
    raise IsolationError(f"code is not run here, for {'; and '.join(problems)}. {_cure()}")


def _problem(gives_root_away: bool) -> str | None:
    """Why one way of making sandboxes does not isolate; None if it does."""
    command = sandbox_command("probe", [], limits=Limits(), gives_root_away=gives_root_away)
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a sandbox did not start within {_PROBE_TIMEOUT_S:.0f} s"
    if result.returncode != 0:
        return f"bubblewrap cannot make a sandbox: {result.stderr.strip()[-300:]}"
    leaks = json.loads(result.stdout)
    return f"the sandbox does not isolate: {', '.join(leaks)}" if leaks else None


def _cure() -> str:
    """What to change, by what this machine forbids."""
    for setting, forbidding, cure in _KERNEL_SETTINGS:
        path = Path("/proc/sys", *setting.split("."))
        if path.exists() and path.read_text(encoding="ascii").strip() == forbidding:
            return f"Set `sysctl -w {setting}={cure}`"
    if os.geteuid() == 0:
        return (
            "Root in a container needs CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined), or run as a "
            "user that may make user namespaces"
        )
    return (
        "A user needs unprivileged user namespaces: in a container, --security-opt "
        "seccomp=unconfined; else see `sysctl user.max_user_namespaces`"
    )


_KERNEL_SETTINGS = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


def _mounts(python: Interpreter) -> list[str]:
    """The interpreter, its libraries and the guest, read-only; parents are open to every user."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _MOUNTED:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in ("/etc/ld.so.cache", "/etc/alternatives"):
        arguments += ["--ro-bind-try", name, name]
    shown = [Path("/usr")]
    for path in map(Path, python.folders):
        if not any(path.is_relative_to(other) for other in shown):
            shown.append(path)
            arguments += [*_open_parents(path), "--ro-bind", str(path), str(path)]
    target = Path(_GUEST_ROOT, "gmts", "rewards", "guest")
    return [*arguments, *_open_parents(target), "--ro-bind", str(_GUEST), str(target)]


def _open_parents(path: Path) -> Iterator[str]:
    for parent in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))
