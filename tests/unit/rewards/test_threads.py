"""Scorers made and asked by several threads of a fresh process, as verl's reward loop does."""

import json
import subprocess
import sys

import pytest

MAKE = """
from gmts.rewards.scorer import make_scorer
def verdict(meta):
    return make_scorer(rewards)(r"\\boxed{3}", "3", meta).correct
"""
JUDGE = """
import json
from gmts.trainers.verl.questions import judge
def verdict(meta):
    text = TypeAdapter(type(rewards)).dump_json(rewards).decode()
    extra = {"id": "1", "meta": json.dumps(meta)}
    return judge("x", r"\\boxed{3}", "3", extra, rewards=text)["acc"] == 1
"""
THREADS = """
import json, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pydantic import TypeAdapter
from gmts.config.load import load_params
rewards = load_params(Path("params.yaml")).rewards
META = {"metadata": {"source_dataset": "chain_sum"}, "question": "1 + 2", "answer": "3"}
def late(number):  # one of them asks while another one is still importing
    time.sleep(0.1 * number)
    return verdict(META)
with ThreadPoolExecutor(12) as threads:
    print(json.dumps(list(threads.map(late, range(12)))))
"""


@pytest.mark.parametrize("how", [MAKE, JUDGE], ids=["make_scorer", "verl's reward function"])
def test_threads_that_ask_while_the_first_one_still_loads_get_their_verdicts(repository, how):
    done = subprocess.run(
        [sys.executable, "-c", how + THREADS],
        cwd=repository, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [True] * 12
