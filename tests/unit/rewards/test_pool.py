import asyncio
import gc
import json
import logging
import subprocess
import sys
import threading
import time

import psutil
import pytest

from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool
from gmts.rewards.verdict import RewardError

HANGING = [
    "e^{e^{e^{100}}}",
    r"\sin(e^{e^{e^{5}}})",
    r"\lfloor e^{e^{30}} \rfloor",
    r"\frac{e^{e^{e^{50}}}}{e^{e^{e^{49}}}}",
    r"\cos(e^{e^{e^{6}}})",
    "e^{e^{e^{90}}} + 1",
]
"""Within every bound on their size; their values never come."""
REFUSED = ["9^{9^{9}}", "(10^7)!", "{" * 3000 + "1" + "}" * 3000]


def config(**changes):
    return PoolConfig(**({"workers": 2, "deadline_s": 3.0, "memory_mib": 1024} | changes))


def job(answer, gold="5", name="row"):
    return Job(id=name, response=rf"\boxed{{{answer}}}", ground_truth=gold, meta={})


def workers():
    return [
        child
        for child in psutil.Process().children()
        if "gmts.rewards.worker" in str(child.cmdline())
    ]


@pytest.fixture(autouse=True)
def no_worker_is_left():
    yield
    gc.collect()
    assert workers() == []


def test_hanging_verdicts_are_ended_counted_and_do_not_hold_up_the_rest(caplog):
    jobs = [job(text, name=f"hang-{i}") for i, text in enumerate([*HANGING, *REFUSED])]
    jobs += [job(str(i % 10), name=f"honest-{i}") for i in range(40)]
    with RewardPool("math", config(workers=4, deadline_s=0.5)) as pool:
        with caplog.at_level(logging.WARNING):
            verdicts = pool.score_all(jobs)
        hung = {f"hang-{i}" for i in range(len(HANGING))}
        reasons = {j.id: v.reason for j, v in zip(jobs, verdicts, strict=True)}
        assert {name for name, reason in reasons.items() if reason == "timeout"} == hung
        assert not any(verdict.correct for verdict in verdicts[:9])
        assert [verdict.correct for verdict in verdicts[9:]] == [i % 10 == 5 for i in range(40)]
        assert (pool.counts.timeouts, pool.counts.workers_replaced) == (6, 6)
        assert (pool.counts.judged, pool.counts.errors) == (49, 0)
        assert pool.score_all([job("5.0")])[0].correct  # the next honest one
    assert all(any(name in message for message in caplog.messages) for name in hung)


def test_verdicts_are_the_same_in_every_kind_of_thread():
    gold = r"\frac{1}{3}"
    jobs = [job(a, gold) for a in (r"\frac13", "1/3", "0.3333", r"\frac{1}{3")]
    wanted = [True, True, False, False]
    with RewardPool("math", config()) as pool:

        def correct():
            return [verdict.correct for verdict in pool.score_all(jobs)]

        found = [correct()]
        threads = [threading.Thread(target=lambda: found.append(correct())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        async def in_loop():
            return [correct(), await asyncio.to_thread(correct)]

        found += asyncio.run(in_loop())
    assert found == [wanted] * 6


def test_a_response_of_50_mb_is_refused_unread_and_the_next_is_judged():
    jobs = [
        Job(id="long", response="\\boxed{5}" + "x" * 50_000_000, ground_truth="5", meta={}),
        job("5"),
    ]
    with RewardPool("math", config(workers=1)) as pool:
        verdicts = pool.score_all(jobs)
        assert [(v.correct, v.reason) for v in verdicts] == [
            (False, "response too long"),
            (True, "right"),
        ]


def test_a_worker_that_is_killed_is_replaced_and_its_row_is_named(caplog):
    with RewardPool("math", config(workers=1, deadline_s=20.0)) as pool:
        assert pool.score_all([job("5")])[0].correct
        (worker,) = workers()
        killer = threading.Timer(1.0, worker.kill)
        killer.start()
        verdicts = pool.score_all([job(HANGING[0], name="victim"), job("5")])
        killer.join()
    assert [v.reason for v in verdicts] == ["error: worker ended with -9", "right"]
    assert (pool.counts.errors, pool.counts.workers_replaced) == (1, 1)
    assert "no verdict on row victim: error: worker ended with -9" in caplog.messages


def test_a_missing_gold_is_raised_with_its_row_after_the_others_are_judged():
    done = []
    with (
        RewardPool("math", config(workers=1)) as pool,
        pytest.raises(RewardError, match=r"must be non-empty text, got nothing \(row bare\)"),
    ):
        pool.score_all([job("5", "", "bare"), job("5")], on_verdict=lambda: done.append(1))
    assert len(done) == 2


def test_a_pool_that_is_forgotten_leaves_no_worker():
    pool = RewardPool("math", config(workers=1))
    assert pool.score_all([job("5")])[0].correct
    assert len(workers()) == 1
    del pool


ORPHAN = f"""
import sys
from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool
pool = RewardPool("math", PoolConfig(workers=2, deadline_s=2.0, memory_mib=1024))
pool.score_all([Job(id="", response="5", ground_truth="5", meta={{}})] * 2)
print(*(worker.process.pid for worker in pool.staffed(0)), flush=True)
response = r"\\boxed{{{HANGING[0]}}}"
pool.score_all([Job(id="", response=response, ground_truth="5", meta={{}})] * 2)
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed_even_while_they_hang():
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.5)
        parent.kill()
    end = time.monotonic() + 60
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.2)


def test_what_a_verdict_says_is_plain_data():
    with RewardPool("choice", config(workers=1)) as pool:
        verdict = pool.score_all([Job(id="", response="Answer: (B)", ground_truth="B", meta={})])[0]
    assert json.dumps([verdict.correct, verdict.score, verdict.reason]) == '[true, 1.0, "right"]'
    assert verdict.extracted == "(B)"
    assert verdict.seconds < 1
