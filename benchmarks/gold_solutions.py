"""Canonical solutions and mutated ones: `python benchmarks/gold_solutions.py [DATA] [--every N]`.

DATA is a folder with humanevalplus, mbppplus and kodcode_demo. Each canonical solution should pass.
Each is then broken by one flipped operator or constant: the judge must let no more of these pass
than a plain runner, which executes solution and tests in one process.
"""

import argparse
import ast
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gmts.rewards.code.judge import CodeJudge, Tests
from gmts.rewards.code.names import TestsError
from gmts.rewards.code.rows import humaneval_tests, kodcode_tests, mbppplus_tests

WORKERS = 2
FLIPS: dict[type, ast.AST] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.Lt: ast.GtE(),
    ast.LtE: ast.Gt(),
    ast.Gt: ast.LtE(),
    ast.GtE: ast.Lt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.And: ast.Or(),
    ast.Or: ast.And(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A canonical solution and how its tests are made."""

    set_name: str
    row_id: str
    solution: str
    make_tests: Callable[[], Tests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the table says about one data set."""

    rows: int
    refused: list[str]
    failed: list[str]
    mutants: int
    passed_here: int
    passed_plainly: int


def golds(data: Path) -> Iterator[Gold]:
    """Yield the canonical solutions of the three sets."""
    for row in _lines(data / "humanevalplus" / "HumanEvalPlus.jsonl.gz"):
        yield Gold(
            set_name="HumanEval+",
            row_id=row["task_id"],
            solution=row["prompt"] + row["canonical_solution"],
            make_tests=lambda row=row: humaneval_tests(row),
        )
    for row in _lines(data / "mbppplus" / "MbppPlus.jsonl.gz"):
        yield Gold(
            set_name="MBPP+",
            row_id=row["task_id"],
            solution=row["canonical_solution"],
            make_tests=lambda row=row: mbppplus_tests(row),
        )
    for path in sorted((data / "kodcode_demo").glob("*.json")):
        for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            yield Gold(
                set_name="KodCode demo",
                row_id=f"{path.stem.split('_')[2]}/{number}",
                solution=row["response"],
                make_tests=lambda row=row: kodcode_tests(row),
            )


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def mutate(source: str) -> str | None:
    """Flip the last operator, or else raise the last number by one; None if there is neither."""
    tree = ast.parse(source)
    places = [(node, name) for node in ast.walk(tree) for name, _ in ast.iter_fields(node)]
    for node, name in reversed(places):
        value = getattr(node, name)
        if name == "ops":
            node.ops[0] = FLIPS.get(type(node.ops[0]), node.ops[0])  # type: ignore[attr-defined]
        elif name == "op" and type(value) in FLIPS:
            node.op = FLIPS[type(value)]  # type: ignore[attr-defined]
        elif name == "value" and type(value) is int:
            node.value = value + 1  # type: ignore[attr-defined]
        changed = ast.unparse(tree)
        if changed != ast.unparse(ast.parse(source)):
            return changed
    return None


def passes_plainly(solution: str, tests: Tests) -> bool:
    """Whether solution and tests in one process, one after the other, end with status 0."""
    runner = {
        "assert": [sys.executable, "test_solution.py"],
        "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
    }[tests.kind]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "solution.py").write_text(solution, encoding="utf-8")
        text = f"from solution import *\n{tests.source}"
        Path(folder, "test_solution.py").write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                runner,
                cwd=folder,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=20,
                env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def table(data: Path, every: int) -> dict[str, Row]:
    """Judge every `every`-th canonical solution and its mutant."""
    chosen: dict[str, list[Gold]] = {}
    for gold in golds(data):
        chosen.setdefault(gold.set_name, []).append(gold)
    with CodeJudge(workers=WORKERS) as judge:
        return {name: _row(judge, rows[::every]) for name, rows in chosen.items()}


def _row(judge: CodeJudge, rows: list[Gold]) -> Row:
    refused, judged = [], []
    for gold in rows:
        try:
            judged.append((gold, gold.make_tests()))
        except TestsError as error:
            refused.append(f"{gold.row_id}: {error}")
    verdicts = judge.judge_all((gold.solution, tests) for gold, tests in judged)
    failed = [
        f"{gold.row_id}: {verdict.reason}"
        for (gold, _), verdict in zip(judged, verdicts, strict=True)
        if not verdict.correct
    ]
    mutants = [
        (mutant, tests) for gold, tests in judged if (mutant := mutate(gold.solution)) is not None
    ]
    here = [verdict.correct for verdict in judge.judge_all(mutants)]
    with ThreadPoolExecutor(WORKERS) as pool:
        plainly = list(pool.map(lambda pair: passes_plainly(*pair), mutants))
    return Row(
        rows=len(rows),
        refused=refused,
        failed=failed,
        mutants=len(mutants),
        passed_here=sum(here),
        passed_plainly=sum(plainly),
    )


def main() -> None:
    """Print the table, and every row that is refused or fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=Path("../shared/data"))
    parser.add_argument("--every", type=int, default=1, help="take every N-th row")
    arguments = parser.parse_args()
    result = table(arguments.data, arguments.every)
    print("| set | rows | refused | failed | mutants | passed here | passed plainly |")
    print("|---|---|---|---|---|---|---|")
    for name, row in result.items():
        counts = [row.rows, len(row.refused), len(row.failed)]
        counts += [row.mutants, row.passed_here, row.passed_plainly]
        print(f"| {name} | {' | '.join(map(str, counts))} |")
    for name, row in result.items():
        for line in [*row.refused, *row.failed]:
            print(f"{name} {line}")


if __name__ == "__main__":
    main()
