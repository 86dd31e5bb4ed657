"""A pool's worker: reads jobs from a descriptor, judges them, answers; ends with its parent.

It runs as its own program (`python -m gmts.rewards.worker`), so that it shares neither threads nor
locks nor the main module with whoever judges.
"""

import json
import resource
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from gmts.rewards.kinds import Job, judge
from gmts.rewards.verdict import MEMORY, RewardError, Verdict

MEMORY_EXIT = 86
"""Exit code after the memory limit was met."""
_MIB = 1 << 20


def main(descriptor: int, deadline_s: float, memory_mib: int) -> None:
    """Answer jobs until the other end of the descriptor is closed.

    SIGPROF, which ends the process by default, comes when one verdict has used `deadline_s` of CPU
    time: a worker that computes on after its parent was killed ends by itself, and a busy machine
    takes nothing from an honest answer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * _MIB, memory_mib * _MIB))
    with Connection(descriptor) as connection:
        _warm_up()
        connection.send_bytes(b"ready")
        while True:
            try:
                message = connection.recv_bytes()
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_PROF, deadline_s)
            answer = _answer(json.loads(message), connection)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(json.dumps(answer).encode())


def _answer(message: Mapping[str, Any], connection: Connection) -> dict[str, Any]:
    job = Job(**message["job"])
    try:
        return _packed(judge(message["kind"], job, require_box=message["require_box"]))
    except RewardError as error:
        return {"refused": str(error)}
    except RecursionError as error:
        return {"error": f"RecursionError: {error}"}
    except MemoryError:
        # What was half built may be broken: a new worker goes on.
        connection.send_bytes(json.dumps({"error": MEMORY}).encode())
        sys.exit(MEMORY_EXIT)
    except Exception as error:
        connection.send_bytes(
            json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode()
        )
        raise


def _packed(verdict: Verdict) -> dict[str, Any]:
    return {
        "correct": verdict.correct,
        "score": verdict.score,
        "reason": verdict.reason,
        "extracted": verdict.extracted,
        "seconds": verdict.seconds,
    }


def _warm_up() -> None:
    """Load what verdicts need before the first deadline runs."""
    for kind, response, truth in (("math", r"\boxed{\sqrt{2}}", r"\sqrt{3}"), ("choice", "A", "B")):
        judge(kind, Job(id="", response=response, ground_truth=truth, meta={}), require_box=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
