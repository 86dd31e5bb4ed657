"""BigCodeBench's own solutions that fail here: `python benchmarks/bigcodebench_gold.py FILE`.

FILE holds rows of BigCodeBench, JSON lines or parquet. A task whose own solution fails (it asks the
network, or a library has another version) is lost for every model. Verdicts are those of responses.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gmts.evaluation.benchmarks import read_rows_of
from gmts.evaluation.config import BenchmarkConfig
from gmts.rewards.code.bigcodebench import check_installed, judge_bigcodebench


def failing(path: Path, *, workers: int) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of tasks, and the id and reason of those whose own solution fails."""
    check_installed()
    fields = dict.fromkeys(("repo", "revision", "files", "rows", "sha256", "greedy", "custom"))
    config = BenchmarkConfig(path=str(path.absolute()), **fields)
    rows = read_rows_of("bigcodebench", config, Path()).rows
    with ThreadPoolExecutor(workers) as pool:
        verdicts = pool.map(lambda row: judge_bigcodebench(row.ground_truth, row.meta), rows)
        return len(rows), [
            (row.meta["problem"]["task_id"], verdict.reason)
            for row, verdict in zip(rows, verdicts, strict=True)
            if not verdict.correct
        ]


def main() -> None:
    """Print every task that fails with the reason, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    tasks, failed = failing(arguments.file, workers=arguments.workers)
    for task, reason in failed:
        print(f"{task} {reason}")
    print(f"{len(failed)} of {tasks} canonical solutions fail")


if __name__ == "__main__":
    main()
