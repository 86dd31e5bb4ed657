"""Cases of rewards and evaluation that other projects got wrong, through the whole product."""

import asyncio
import logging
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gmts.evaluation.results import read_results
from gmts.rewards.config import MathConfig, OverlongConfig, PoolConfig, RewardsConfig
from gmts.rewards.kinds import Job
from gmts.rewards.scorer import judge_all, make_scorer
from gmts.rollout.sampler import Sampler
from gmts.stages.benchmark import benchmark
from tests.support.exams import entry, exam_params, own_file
from tests.support.tiny_run import put_initial, tiny_model, tiny_workspace

CONFIG = RewardsConfig(
    scorer="math",
    answer="boxed",
    custom=None,
    math=MathConfig(require_box=False),
    overlong=OverlongConfig(buffer_tokens=None, factor=1.0),
    pool=PoolConfig(workers=1, deadline_s=0.5, memory_mib=1024),
)
HONEST = "```python\ndef add(a, b):\n    return a + b\n```"


def boxed(answer, gold, name="row"):
    return Job(id=name, response=rf"So \boxed{{{answer}}}.", ground_truth=gold, meta={})


def test_c23_rewards_are_the_same_from_every_thread_and_a_failure_is_never_a_silent_0(caplog):
    gold = r"\frac{1}{3}"
    jobs = [boxed(answer, gold) for answer in (r"\frac13", "1/3", "0.3333", r"\frac{1}{3")]
    scorer = make_scorer(CONFIG)
    found = {}

    def judge(name):
        found[name] = [verdict.score for verdict in judge_all(scorer, jobs)]

    async def in_loop():
        judge("event loop")
        await asyncio.to_thread(judge, "thread of an event loop")

    judge("main")
    thread = threading.Thread(target=judge, args=["thread"])
    thread.start()
    thread.join()
    asyncio.run(in_loop())
    assert list(found) == ["main", "thread", "event loop", "thread of an event loop"]
    assert list(found.values()) == [[1, 1, 0, 0]] * 4
    with caplog.at_level(logging.WARNING):
        hung, next_one = judge_all(
            scorer, [boxed("e^{e^{e^{100}}}", "5", "row 7"), boxed("5", "5")]
        )
    assert (hung.correct, hung.reason, next_one.correct) == (False, "timeout", True)
    assert (scorer.pool.counts.timeouts, scorer.pool.counts.errors) == (1, 0)
    assert any("row 7" in message for message in caplog.messages)
    scorer.pool.close()
    own = make_scorer(replace(CONFIG, scorer="custom", custom="tests.support.bad_rewards:raises"))
    with pytest.raises(TypeError) as caught:
        judge_all(own, [boxed("5", "5", "row 8")])
    assert caught.value.__notes__ == ["while judging a response to row row 8"]


def test_c24_hostile_answers_get_nothing_and_the_next_honest_one_is_right(tmp_path):
    marker = tmp_path / "marker"
    hostile = [
        boxed(rf"\pi*__import__('os').system('touch {marker}')", r"\pi"),
        boxed(f"__import__('pathlib').Path('{marker}').touch() or \\pi", r"\pi"),
        boxed("9**9**9", r"\pi"),
        boxed("9^{9^{9}}", r"\pi"),
        boxed("x" * 50_000_000 + r"\pi", r"\pi"),
    ]
    scorer = make_scorer(CONFIG)
    for job in hostile:
        verdict, honest = judge_all(scorer, [job, boxed(r"\pi", r"\pi")])
        assert (verdict.score, honest.score) == (0, 1), job.response[:80]
        assert verdict.seconds < 8
    scorer.pool.close()
    assert not marker.exists()


def test_c24_hostile_programs_get_nothing_and_the_next_honest_one_is_right():
    marker = f"gmts-marker-{threading.get_native_id()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        honest = "def add(a, b):\n    return a + b\n"
        hostile = {
            "forks": "import os\nif os.fork(): os._exit(0)\ndef add(a, b): return 5\n",
            "writes to $HOME": (
                f"import os\nopen(os.path.expanduser('~/{marker}'), 'w').write('x')\n{honest}"
            ),
            "opens a socket": (
                f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\n{honest}"
            ),
            "prints a fake report": (
                "import os, sys\nprint('1 passed in 0.01s\\nall tests passed')\n"
                "sys.stdout.flush()\nos._exit(0)\n"
            ),
            "patches the grader": (
                "import gmts.rewards.code.judge as judge\n"
                "judge.CodeJudge.judge = lambda *a, **k: True\ndef add(a, b): return 0\n"
            ),
        }
        scorer = make_scorer(replace(CONFIG, scorer="code"))
        tests = "assert add(2, 3) == 5\nassert add(-1, 1) == 0"
        meta = {"kind": "assert", "timeout_s": 4}
        for name, program in hostile.items():
            verdict = scorer(f"```python\n{program}```", tests, meta)
            assert verdict.score == 0, name
            assert verdict.seconds < 30
            assert scorer(HONEST, tests, meta).score == 1, name
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not (Path.home() / marker).exists()


def test_c26_the_evaluation_cache_follows_the_weights_and_goes_on_after_an_interruption(
    tmp_path, monkeypatch
):
    workspace = tiny_workspace(tmp_path)
    params = exam_params({"amc23": entry(own_file(tmp_path, 5))}, evaluate__batch_size=4)
    path = workspace.benchmarks_dir / "amc23" / "initial"

    def run():
        sampled = benchmark(params, workspace, "amc23", "initial").values["sampled"]
        scores, questions = read_results(path)
        return sampled, scores["weights_sha256"], [q.responses for q in questions]

    sampled, first_hash, first = run()
    assert sampled == 20
    assert run() == (0, first_hash, first)  # unchanged weights
    put_initial(workspace, tiny_model(seed=1))  # other weights at the same path
    sampled, second_hash, second = run()
    assert (sampled, second_hash != first_hash, second != first) == (20, True, True)
    put_initial(workspace, tiny_model(seed=0))  # two models, one cache
    assert run() == (0, first_hash, first)
    sample, calls = Sampler.sample, []

    def stopped_at_the_third_call(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return sample(self, *args, **kwargs)

    put_initial(workspace, tiny_model(seed=2))
    with monkeypatch.context() as patch:
        patch.setattr(Sampler, "sample", stopped_at_the_third_call)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert read_results(path)[0]["weights_sha256"] == first_hash  # no half results
    sampled, _, third = run()
    assert sampled == 12  # two questions of five were there
    uninterrupted = tiny_workspace(tmp_path / "whole")
    put_initial(uninterrupted, tiny_model(seed=2))
    own_file(uninterrupted.root, 5)
    benchmark(params, uninterrupted, "amc23", "initial")
    whole = read_results(uninterrupted.benchmarks_dir / "amc23" / "initial")[1]
    assert [q.responses for q in whole] == third
