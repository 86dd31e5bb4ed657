"""Solutions, their tests, and verdicts; one at a time or in batches."""

import json
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from gmts.rewards.code.bench import Bench, Outcome
from gmts.rewards.code.livecodebench import KIND as LIVECODEBENCH
from gmts.rewards.code.livecodebench import contest_program, same_output, same_value
from gmts.rewards.code.names import check_tests, free_names, missing_imports
from gmts.rewards.code.scripts import Case, run_cases
from gmts.rewards.verdict import Verdict

MAX_TIMEOUT_S = 7.0
"""A row may ask for less time, never for more: a batch waits for its slowest row."""
MAX_SOLUTION_CHARS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """What a solution has to satisfy.

    Raises:
        TestsError: If they cannot judge a solution in another process (gmts.rewards.code.names).
        ValueError: If a field is out of range.
    """

    __test__ = False

    kind: str
    """assert (statements, run from top to bottom), pytest, unittest, stdin or livecodebench."""
    source: str
    """Python; with stdin and livecodebench JSON {inputs: [text], outputs: [text]}."""
    timeout_s: float = MAX_TIMEOUT_S
    """Wall clock of all tests together; of each case with stdin and livecodebench."""
    entry_point: str | None = None
    """The function under test, needed only where it has the name of a builtin; with livecodebench
    the one that is called, None for a program that reads standard input."""
    cases: list[Case] = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"tests.kind must be one of {', '.join(_KINDS)}, got {self.kind!r}")
        if not self.timeout_s > 0:
            raise ValueError(f"tests.timeout_s must be positive, got {self.timeout_s}")
        if not self.source.strip():
            raise ValueError("tests.source must not be empty")
        if self.kind in ("stdin", LIVECODEBENCH):
            object.__setattr__(self, "cases", _cases(self.source))
        else:
            object.__setattr__(self, "cases", [])
            check_tests(self.source, self.entry_point)


class CodeJudge:
    """Makes verdicts on several benches at once; close it, or use it as a context manager.

    Its threads may be called from any thread. After a fork, make a new one.
    """

    def __init__(self, *, workers: int = 1) -> None:
        """Start the sandboxes of `workers` benches.

        Raises:
            ValueError: If workers is less than 1.
            IsolationError: If sandboxes do not isolate here; no code is run.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="judge")
        self._free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        self._benches = list(self._pool.map(lambda _: Bench(), range(workers)))
        for bench in self._benches:
            self._free.put(bench)

    def judge(self, solution: str, tests: Tests) -> Verdict:
        """Return the verdict on one program."""
        start = time.perf_counter()
        outcome = self._outcome(solution, tests)
        return Verdict(
            correct=outcome.passed,
            score=float(outcome.passed),
            reason=outcome.reason,
            extracted=solution,
            seconds=time.perf_counter() - start,
        )

    def judge_all(self, rows: Iterable[tuple[str, Tests]]) -> list[Verdict]:
        """Return the verdicts on (solution, tests) pairs, in their order."""
        return list(self._pool.map(lambda row: self.judge(*row), rows))

    def close(self) -> None:
        """End every sandbox."""
        self._pool.shutdown()
        for bench in self._benches:
            bench.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _outcome(self, solution: str, tests: Tests) -> Outcome:
        if len(solution) > MAX_SOLUTION_CHARS:
            return Outcome(passed=False, reason=f"longer than {MAX_SOLUTION_CHARS} characters")
        with self._bench() as bench:
            return _KINDS[tests.kind](bench, solution, tests)

    @contextmanager
    def _bench(self) -> Iterator[Bench]:
        bench = self._free.get()
        try:
            yield bench
        finally:
            self._free.put(bench)


def _run_tests(bench: Bench, solution: str, tests: Tests) -> Outcome:
    request = {
        "kind": tests.kind,
        "solution": solution,
        "tests": tests.source,
        "names": free_names(tests.source, tests.entry_point),
        "imports": missing_imports(tests.source, tests.entry_point),
    }
    return bench.run(request, min(tests.timeout_s, MAX_TIMEOUT_S))


def _run_stdin(bench: Bench, solution: str, tests: Tests) -> Outcome:
    return run_cases(bench, solution, tests.cases, min(tests.timeout_s, MAX_TIMEOUT_S))


def _run_contest(bench: Bench, solution: str, tests: Tests) -> Outcome:
    program = contest_program(solution, tests.entry_point)
    same = same_output if tests.entry_point is None else same_value
    return run_cases(bench, program, tests.cases, min(tests.timeout_s, MAX_TIMEOUT_S), same)


_KINDS: dict[str, Callable[[Bench, str, Tests], Outcome]] = {
    "assert": _run_tests,
    "pytest": _run_tests,
    "unittest": _run_tests,
    "stdin": _run_stdin,
    LIVECODEBENCH: _run_contest,
}


def _cases(source: str) -> list[Case]:
    try:
        given: Any = json.loads(source)
        pairs = list(zip(given["inputs"], given["outputs"], strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            "tests.source of cases must be JSON {inputs: [text], outputs: [text]} of equal "
            f"lengths, got {source[:80]!r}"
        ) from error
    if not pairs or not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ValueError("tests.source of cases must hold at least one case, all of text")
    return [Case(stdin=given_in, stdout=given_out) for given_in, given_out in pairs]
