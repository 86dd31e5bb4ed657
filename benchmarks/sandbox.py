"""Verdicts on code per second: `python benchmarks/sandbox.py`.

Two benches judge the same rows in batches, as a training step does. Every verdict takes two
sandboxes: a new one for the solution, made ahead, and the tests' warm one. Wall-clock seconds, so
run it on an idle machine; the load at the start is printed.
"""

import os
import time

from gmts.rewards.code.judge import CodeJudge, Tests

WORKERS, VERDICTS = 2, 60
RIGHT = "def add(a, b):\n    return a + b\n"
EXIT = "import os\nos._exit(0)\n"
ASSERTIONS = Tests(kind="assert", source="assert add(2, 3) == 5\nassert add(-1, 1) == 0\n")
PYTEST = Tests(
    kind="pytest",
    source=(
        "def test_sum():\n    assert add(2, 3) == 5\n\n"
        "def test_zero():\n    assert add(0, 0) == 0\n"
    ),
)
STDIN = Tests(kind="stdin", source='{"inputs": ["2 3"], "outputs": ["5"]}')
ROWS = {
    "assertions, right": (RIGHT, ASSERTIONS, True),
    "assertions, os._exit": (EXIT, ASSERTIONS, False),
    "pytest, right": (RIGHT, PYTEST, True),
    "stdin, right": ("print(sum(map(int, input().split())))", STDIN, True),
}


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    with CodeJudge(workers=WORKERS) as judge:
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {WORKERS} benches, ", end="")
        print(f"started in {time.perf_counter() - start:.1f} s")
        print("| rows | verdicts/s |\n|---|---|")
        for name, (solution, tests, right) in ROWS.items():
            start = time.perf_counter()
            verdicts = judge.judge_all([(solution, tests)] * VERDICTS)
            seconds = time.perf_counter() - start
            if any(verdict.correct is not right for verdict in verdicts):
                raise SystemExit(f"{name}: wrong verdicts: {verdicts[0].reason}")
            print(f"| {name} | {VERDICTS / seconds:.1f} |")


if __name__ == "__main__":
    main()
