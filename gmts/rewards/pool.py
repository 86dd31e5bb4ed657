"""Long-lived processes that judge: limited in time and memory, replaced when they hang or die."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import gmts
from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job, too_long
from gmts.rewards.verdict import ERROR, MEMORY, TIMEOUT, RewardError, Verdict, binary
from gmts.rewards.worker import MEMORY_EXIT

logger = logging.getLogger(__name__)

START_S = 120.0
"""Seconds that a worker may take to start."""
_WALL = 2.0
"""Wall-clock limit of a verdict, in deadlines."""


@dataclass(slots=True, kw_only=True)
class PoolCounts:
    """What has happened to the jobs of a pool."""

    judged: int = 0
    timeouts: int = 0
    errors: int = 0
    """Verdicts that failed otherwise: an exception, the memory limit, a dead worker."""
    workers_replaced: int = 0


@dataclass(slots=True, kw_only=True)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    ready: bool = False
    place: int | None = None
    """Of the job that it judges."""
    since: float = field(default_factory=time.monotonic)

    def end(self) -> int:
        """End the process, whatever it does, and return its exit code."""
        self.connection.close()
        self.process.kill()
        return self.process.wait()


class RewardPool:
    """Judges jobs of one kind in other processes. Any thread may use it; one at a time does."""

    def __init__(self, kind: str, config: PoolConfig, *, require_box: bool = False) -> None:
        """Prepare a pool; workers start with the first jobs.

        Args:
            kind: A key of gmts.rewards.kinds.JUDGES.
            config: Workers and their limits.
            require_box: rewards.math.require_box.
        """
        self.counts = PoolCounts()
        self._kind = kind
        self._config = config
        self._require_box = require_box
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _end_all, self._workers)

    def __enter__(self) -> "RewardPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker. Nothing is left of a pool that is closed or forgotten."""
        self._finalizer()

    def score_all(
        self, jobs: Sequence[Job], on_verdict: Callable[[], object] = lambda: None
    ) -> list[Verdict]:
        """Return the verdicts of `jobs`, in their order.

        Args:
            jobs: What to judge.
            on_verdict: Called after each verdict.

        Raises:
            RewardError: If a job has no ground truth to be judged by, or workers do not start; the
                jobs that could be judged have been.
        """
        with self._lock:
            return _Round(self, jobs, on_verdict).run()

    def message(self, job: Job) -> bytes:
        """Return what a worker is told."""
        content = {"kind": self._kind, "require_box": self._require_box, "job": asdict(job)}
        return json.dumps(content).encode()

    def staffed(self, wanted: int) -> list[_Worker]:
        """Return the workers, at least `wanted` or as many as configured, dead ones replaced."""
        while len(self._workers) < min(wanted, self._config.workers):
            self._workers.append(_start(self._config))
        return self._workers

    def remove(self, worker: _Worker) -> int:
        """End a worker that hangs or is broken, and return its exit code."""
        self._workers.remove(worker)
        self.counts.workers_replaced += 1
        return worker.end()

    def limit_s(self, worker: _Worker) -> float:
        """Seconds that are left to what the worker does."""
        allowed = _WALL * self._config.deadline_s if worker.ready else START_S
        return worker.since + allowed - time.monotonic()


class _Round:
    """One call of score_all."""

    def __init__(
        self, pool: RewardPool, jobs: Sequence[Job], on_verdict: Callable[[], object]
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._on_verdict = on_verdict
        self._verdicts: list[Verdict | None] = [None] * len(jobs)
        self._waiting: list[int] = []
        self._refused: RewardError | None = None
        self._failed_starts = 0

    def run(self) -> list[Verdict]:
        for place, job in enumerate(self._jobs):
            if (verdict := too_long(job)) is not None:
                self._settle(place, verdict)
            else:
                self._waiting.append(place)
        self._waiting.reverse()
        try:
            while self._open() and not self._failed_starts > 2:
                self._turn()
        finally:
            for worker in [w for w in self._pool.staffed(0) if w.place is not None]:
                self._pool.remove(worker)  # interrupted: its answer would be taken for the next
        if self._refused is not None:
            raise self._refused
        if self._failed_starts > 2:
            raise RewardError("reward workers do not start; their messages are above")
        return [verdict for verdict in self._verdicts if verdict is not None]

    def _open(self) -> int:
        return sum(verdict is None for verdict in self._verdicts)

    def _turn(self) -> None:
        """Hand out jobs, wait for what comes first, and see to it."""
        workers = self._pool.staffed(self._open())
        for worker in workers:
            if worker.ready and worker.place is None and self._waiting:
                self._hand(worker, self._waiting.pop())
        busy = [w for w in workers if w.place is not None or not w.ready]
        limit = min(self._pool.limit_s(worker) for worker in busy)
        answered = wait([worker.connection for worker in busy], max(0.0, limit))
        for worker in busy:
            if worker.connection in answered:
                self._hear(worker)
            elif self._pool.limit_s(worker) <= 0:
                self._pool.remove(worker)
                self._lost(worker, TIMEOUT)

    def _hand(self, worker: _Worker, place: int) -> None:
        worker.place, worker.since = place, time.monotonic()
        try:
            worker.connection.send_bytes(self._pool.message(self._jobs[place]))
        except OSError:
            self._lost(worker, f"{ERROR}: worker ended with {self._pool.remove(worker)}")

    def _hear(self, worker: _Worker) -> None:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            code = self._pool.remove(worker)
            self._lost(worker, _REASONS.get(code, f"{ERROR}: worker ended with {code}"))
            return
        if not worker.ready:
            worker.ready = True
            return
        place, worker.place = worker.place, None
        assert place is not None
        answer: dict[str, Any] = json.loads(message)
        if "refused" in answer:
            error = RewardError(f"{answer['refused']} (row {self._jobs[place].id})")
            self._refused = self._refused or error
            self._settle(place, binary(False, f"{ERROR}: {answer['refused']}", None, 0.0))
        elif "error" in answer:
            self._pool.remove(worker)
            self._fail(place, f"{ERROR}: {answer['error']}", time.monotonic() - worker.since)
        else:
            self._settle(place, Verdict(**answer))

    def _lost(self, worker: _Worker, reason: str) -> None:
        """Settle the job of a worker that is gone; one that never started only counts."""
        if worker.place is None:
            self._failed_starts += not worker.ready
            return
        self._fail(worker.place, reason, time.monotonic() - worker.since)
        worker.place = None

    def _fail(self, place: int, reason: str, seconds: float) -> None:
        counts = self._pool.counts
        if reason == TIMEOUT:
            counts.timeouts += 1
        else:
            counts.errors += 1
        logger.warning("no verdict on row %s: %s", self._jobs[place].id, reason)
        self._settle(place, binary(False, reason, None, seconds))

    def _settle(self, place: int, verdict: Verdict) -> None:
        self._verdicts[place] = verdict
        self._pool.counts.judged += 1
        self._on_verdict()


_REASONS = {-signal.SIGPROF: TIMEOUT, MEMORY_EXIT: f"{ERROR}: {MEMORY}"}
"""What an exit code of a worker says."""


def _start(config: PoolConfig) -> _Worker:
    ours, theirs = socket.socketpair()
    root = str(Path(gmts.__file__).resolve().parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gmts.rewards.worker",
                str(theirs.fileno()),
                str(config.deadline_s),
                str(config.memory_mib),
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
    return _Worker(process=process, connection=Connection(ours.detach()))


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().end()
