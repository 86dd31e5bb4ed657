"""HumanEval(+) and MBPP(+) with evalplus as a library, every check in a sandbox.

Statuses are those of evalplus's own command on the same samples: its functions are called with its
own limits. What its command reaches for outside (a cache folder, the network) is not needed.
"""

import gzip
import importlib.util
import json
import select
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmts.rewards.code.extract import NO_PROGRAM
from gmts.rewards.guest.channel import Channel, ChannelError
from gmts.rewards.sandbox.isolation import Limits
from gmts.rewards.sandbox.process import Sandbox
from gmts.rewards.verdict import Verdict

# evalplus sets a limit of 4 GiB itself, and fails where less is allowed.
_LIMITS = Limits(memory_mib=4096, cpu_s=300)
_TIMEOUT_S = 200.0  # evalplus gives up on each of the two sets after a minute or so
_DATASETS = ("humaneval", "mbpp")
KIND = "evalplus"
"""meta.kind of rows that evalplus judges."""
FIELDS = (
    "task_id",
    "prompt",
    "entry_point",
    "canonical_solution",
    "base_input",
    "plus_input",
    "atol",
)
"""Of a problem, what evalplus reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """evalplus's statuses of one sample: pass, fail or timeout."""

    task_id: str
    base: str
    plus: str

    @property
    def correct(self) -> tuple[bool, bool]:
        """Whether it counts for the base score, and for the plus score, which needs both."""
        return self.base == "pass", self.base == self.plus == "pass"


def read_problems(path: Path) -> dict[str, dict[str, Any]]:
    """Return the problems of a file of evalplus (JSON lines, .gz or not) by task id.

    Raises:
        ValueError: If the file holds no problems of evalplus.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    if not rows or any(set(FIELDS) - row.keys() for row in rows):
        raise ValueError(f"{path}: every row needs {', '.join(FIELDS)}")
    return {row["task_id"]: row for row in rows}


def check_installed() -> None:
    """See that evalplus is there.

    Raises:
        ValueError: If it is not.
    """
    if importlib.util.find_spec("evalplus") is None:
        raise ValueError("scores of HumanEval+ and MBPP+ need evalplus: pip install 'gmts[code]'")


def judge_evalplus(program: str | None, meta: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a program: right if it passes the base and the plus inputs.

    Args:
        program: As the response holds it; None if it holds none, which fails.
        meta: `dataset` and `problem`, a row of evalplus's data.

    Raises:
        ValueError: As `check_samples`.
        IsolationError: As `check_samples`.
    """
    start = time.perf_counter()
    problem = meta["problem"]
    task_id = problem["task_id"]
    if program is None:
        found, reason = Statuses(task_id=task_id, base="fail", plus="fail"), NO_PROGRAM
    else:
        found = check_samples(meta["dataset"], {task_id: problem}, [(task_id, program)])[0]
        reason = f"base {found.base}, plus {found.plus}"
    correct = all(found.correct)
    return Verdict(
        correct=correct,
        score=float(correct),
        reason=reason,
        extracted=program,
        seconds=time.perf_counter() - start,
        statuses={"base": found.base, "plus": found.plus},
    )


def check_samples(
    dataset: str,
    problems: Mapping[str, dict[str, Any]],
    samples: Iterable[tuple[str, str]],
    *,
    workers: int = 1,
) -> list[Statuses]:
    """Return the statuses of (task id, program) samples, in their order.

    Raises:
        ValueError: If the data set or a task is not known, or evalplus is not installed.
        IsolationError: If code cannot be isolated here.
    """
    if dataset not in _DATASETS:
        raise ValueError(f"dataset must be one of {', '.join(_DATASETS)}, got {dataset!r}")
    check_installed()
    chosen = list(samples)
    unknown = sorted({task_id for task_id, _ in chosen} - problems.keys())
    if unknown:
        raise ValueError(f"{dataset} has no task {', '.join(unknown[:5])}")
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda pair: _check(dataset, problems[pair[0]], pair[1]), chosen))


def _check(dataset: str, problem: dict[str, Any], solution: str) -> Statuses:
    sandbox = Sandbox("evalplus_side", limits=_LIMITS)
    try:
        channel = Channel(sandbox.channel.fileno())
        chosen = {name: problem[name] for name in FIELDS}
        try:
            channel.send({"dataset": dataset, "problem": chosen, "solution": solution})
            channel.receive()  # the expected results are there
        except ChannelError as error:
            raise RuntimeError(
                f"evalplus broke off on {problem['task_id']}: its canonical solution or inputs fail"
            ) from error
        base, plus = _answer(sandbox, channel)
    finally:
        sandbox.kill()
    return Statuses(task_id=problem["task_id"], base=base, plus=plus)


def _answer(sandbox: Sandbox, channel: Channel) -> tuple[str, str]:
    """The statuses; a solution that keeps evalplus from giving them has not passed."""
    if not select.select([sandbox.channel], [], [], _TIMEOUT_S)[0]:
        return "timeout", "timeout"
    try:
        answer = channel.receive()
    except ChannelError:
        return "fail", "fail"
    return str(answer["base"]), str(answer["plus"])
