"""The collected answers with known verdicts, through the pool that training uses."""

import json

import pytest

from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool
from tests.support.shared import shared_file

LIMIT_S = 8.0


@pytest.mark.parametrize(
    ("kind", "file", "count"),
    [("math", "math_answers.jsonl", 50), ("choice", "mcq_answers.jsonl", 10)],
)
def test_every_collected_verdict_is_right_and_comes_in_time(kind, file, count):
    rows = [
        json.loads(line)
        for line in shared_file(f"cases/{file}").read_text(encoding="utf-8").splitlines()
    ]
    assert len(rows) == count
    jobs = [
        Job(
            id=row["id"],
            response=row["response"],
            ground_truth=row["ground_truth"],
            meta={"choices": row.get("choices")},
        )
        for row in rows
    ]
    with RewardPool(kind, PoolConfig(workers=2, deadline_s=3.0, memory_mib=1024)) as pool:
        verdicts = pool.score_all(jobs)
    wrong = [
        (row["id"], verdict.reason)
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.correct != row["expected"]
    ]
    assert wrong == []
    assert max(verdict.seconds for verdict in verdicts) < LIMIT_S
