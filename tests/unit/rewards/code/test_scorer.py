"""From a response or a row to a verdict."""

import asyncio
import json
import threading

import pytest

from gmts.rewards.code.extract import last_program
from gmts.rewards.code.judge import Tests
from gmts.rewards.code.names import TestsError, free_names
from gmts.rewards.code.scorer import judge_row, refused_rows, score
from tests.support.shared import shared_file

ADD = "def add(a, b):\n    return a + b\n"
TESTS = "assert add(2, 3) == 5"


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\n```\nbetter:\n```py\nx = 2\n```\nDone.", "x = 2\n"),
        ("```python\nx = 1\n```\nIt prints\n```\n1\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```json\n{}\n```", None),
        ("<think>```python\nx = 1\n```</think>x = 2", None),
        ("<think>hm</think>```python\nx = 2\n```", "x = 2\n"),
        ("<think>```python\nx = 1\n```", None),
        ("```python\nx = 1\n```\n```python\nx = 2", "x = 1\n"),
        ("1. So:\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("def add(a, b): return a + b", None),
    ],
)
def test_last_closed_python_block_after_the_thinking_is_the_program(response, program):
    assert last_program(response) == program


def test_response_is_scored_from_any_thread_and_from_asyncio():
    def scored():
        return score(f"So:\n```python\n{ADD}```", TESTS, {"kind": "assert"})

    found = [scored()]
    thread = threading.Thread(target=lambda: found.append(scored()))
    thread.start()
    thread.join()

    async def later():
        return scored()

    found.append(asyncio.run(later()))
    assert [(v.correct, v.score, v.extracted) for v in found] == [(True, 1.0, ADD)] * 3
    assert not score("no code", TESTS, {"kind": "assert"}).correct


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tests": TESTS, "solution": ADD}, "meta.kind"),
        ({"kind": "doctest", "tests": TESTS, "solution": ADD}, "tests.kind must be one of"),
        ({"kind": "assert", "tests": " ", "solution": ADD}, "tests.source must not be empty"),
        ({"kind": "assert", "tests": TESTS, "solution": ADD, "timeout_s": 0}, "timeout_s"),
        ({"kind": "stdin", "tests": "{}", "solution": ADD}, "inputs"),
        ({"kind": "assert", "tests": TESTS}, "a row needs solution or response"),
    ],
)
def test_bad_row_is_an_error_and_never_a_reward(row, message):
    with pytest.raises(ValueError, match=message):
        judge_row(row)


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("def add(a): return a\ndef test_a(): assert add(1) == 1", "use nothing"),
        ("import inspect\ndef test_a(): assert inspect.getsource(add)", "inspect"),
        ("class My(Base): pass\ndef test_a(): assert My()", "derive My from"),
        ("import pandas\ndef test_a(): assert f(pandas)", "pandas"),
        ("from unittest.mock import patch\n@patch('time.sleep')\ndef test(m): f()", "time.sleep"),
        ("def test_a(: pass", "do not parse"),
    ],
)
def test_tests_that_need_the_solution_beside_them_are_refused_and_listed(tests, message):
    with pytest.raises(TestsError, match=message):
        Tests(kind="pytest", source=tests)
    ((row_id, reason),) = refused_rows([{"id": "a", "kind": "pytest", "tests": tests}])
    assert row_id == "a"
    assert message in reason


def test_names_of_python_are_not_taken_from_the_solution():
    tests = "def test():\n    assert sorted(set(f(x) for x in Counter('a'))) == math.floor(g)\n"
    assert free_names(tests) == ["f", "g"]


@pytest.mark.slow
def test_shared_cases_get_their_verdicts_in_time():
    lines = shared_file("cases/code_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    wrong = []
    for row in map(json.loads, lines):
        verdict = judge_row(row)
        if verdict.correct is not (row["expected"] == "pass") or verdict.seconds > 8:
            wrong.append((row["id"], verdict))
    assert wrong == []
