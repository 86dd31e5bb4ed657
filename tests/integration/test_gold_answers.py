"""benchmarks/gold_answers.py: gold answers are right, others and changed ones wrong."""

import re
import subprocess
import sys

import pytest

from tests.support.shared import shared_file

ROWS = {
    "math500": 500,
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "minerva": 272,
    "olympiadbench": 675,
    "csqa": 1221,
    "csqa2": 2541,
}


@pytest.mark.slow
def test_gold_answers_are_right_and_others_and_changed_ones_wrong(repository):
    folder = shared_file("data/math500/test.jsonl").parents[1]
    done = subprocess.run(
        [sys.executable, "benchmarks/gold_answers.py", str(folder)],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = dict(re.findall(r"^│ (\w+) +│ (\d+) ", done.stdout, re.MULTILINE))
    assert {name: int(count) for name, count in rows.items()} == ROWS
