"""The code reward: a response and its tests in, a verdict out."""

import atexit
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from gmts.rewards.code.bigcodebench import KIND as BIGCODEBENCH
from gmts.rewards.code.bigcodebench import judge_bigcodebench
from gmts.rewards.code.evalplus import KIND as EVALPLUS
from gmts.rewards.code.evalplus import judge_evalplus
from gmts.rewards.code.extract import NO_PROGRAM, last_program
from gmts.rewards.code.judge import CodeJudge, Tests
from gmts.rewards.code.livecodebench import KIND as LIVECODEBENCH
from gmts.rewards.code.livecodebench import TIMEOUT_S, find_tests
from gmts.rewards.verdict import Verdict

_WORKERS = 2


def score(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
    """Judge the last fenced Python block of a response after its thinking part.

    Args:
        response: What the model wrote, without the prompt.
        ground_truth: The tests (Tests.source).
        meta: `kind` (assert, pytest, unittest or stdin), and where they are known `timeout_s`
            in seconds and `entry_point`. With kind evalplus `dataset` and `problem`; with
            kind bigcodebench `problem`; with kind livecodebench `tests_at` and `tests_sha256`.

    Raises:
        ValueError: If the tests are missing, of no known kind, or cannot be run in another process
            than the solution; such a row is never run, see `refused_rows`.
        IsolationError: If code cannot be isolated here.
    """
    start = time.perf_counter()
    if meta.get("kind") == EVALPLUS:
        return judge_evalplus(last_program(response), meta)
    if meta.get("kind") == BIGCODEBENCH:
        return judge_bigcodebench(last_program(response), meta)
    tests = _tests(ground_truth, meta)
    program = last_program(response)
    if program is None:
        return Verdict(
            correct=False,
            score=0.0,
            reason=NO_PROGRAM,
            extracted=None,
            seconds=time.perf_counter() - start,
        )
    return default_judge().judge(program, tests)


def judge_row(row: Mapping[str, Any]) -> Verdict:
    """Judge a row with the fields kind, tests, solution (a program) or response, timeout_s.

    Raises:
        ValueError: As `score`; and if the row has neither a solution nor a response.
        IsolationError: As `score`.
    """
    if "solution" in row:
        return default_judge().judge(str(row["solution"]), _tests(row.get("tests", ""), row))
    if "response" in row:
        return score(str(row["response"]), row.get("tests", ""), row)
    raise ValueError(f"a row needs solution or response, got the fields {', '.join(sorted(row))}")


def refused_rows(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (id, reason) of the rows whose tests cannot judge a solution in another process."""
    refused = []
    for number, row in enumerate(rows):
        try:
            _tests(row.get("tests", ""), row)
        except ValueError as error:
            refused.append((str(row.get("id", number)), str(error)))
    return refused


def default_judge() -> CodeJudge:
    """Return this process's judge, started at the first call; it is closed at exit."""
    with _LOCK:
        judge = _JUDGES.get(os.getpid())
        if judge is None:  # the first call, or one after a fork
            judge = _JUDGES[os.getpid()] = CodeJudge(workers=_WORKERS)
            atexit.register(_close, os.getpid())
        return judge


def _close(process: int) -> None:
    if process == os.getpid():
        _JUDGES.pop(process).close()


_LOCK = threading.Lock()
_JUDGES: dict[int, CodeJudge] = {}


def _tests(source: str, meta: Mapping[str, Any]) -> Tests:
    if "kind" not in meta:
        raise ValueError(f"meta.kind must say what the tests are, got {sorted(meta)}")
    if meta["kind"] == LIVECODEBENCH:
        found = find_tests(meta)
        return Tests(
            kind=LIVECODEBENCH,
            source=found.source(),
            timeout_s=TIMEOUT_S,
            entry_point=found.func_name,
        )
    given = {key: meta[key] for key in ("timeout_s", "entry_point") if meta.get(key) is not None}
    return Tests(kind=meta["kind"], source=source, **given)
