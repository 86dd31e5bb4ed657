"""Rows in the format of LiveCodeBench's files."""

import base64
import json
import pickle
import zlib


def packed(value, protocol=4) -> str:
    """Return private test cases as the files hold them."""
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol=protocol))).decode()


def contest_row(number: int, cases: list, **changes) -> dict:
    """Return a problem that reads standard input, or with func_name one with a function.

    Args:
        number: Makes the problem another one.
        cases: (input, output) pairs, the first public, the others private.
        changes: Fields, or func_name.
    """
    name = changes.pop("func_name", None)
    kind = "stdin" if name is None else "functional"
    tests = [{"input": i, "output": o, "testtype": kind} for i, o in cases]
    starter = (
        "" if name is None else f"class Solution:\n    def {name}(self, a: List[int]) -> int:\n"
    )
    return {
        "question_title": f"Problem {number}",
        "question_content": f"Solve problem {number}.\n\nInput\n\n3\n",
        "platform": "atcoder" if name is None else "leetcode",
        "question_id": f"abc{number}_a",
        "contest_id": f"abc{number}",
        "contest_date": "2024-08-17T00:00:00",
        "starter_code": starter,
        "difficulty": "easy",
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": packed(json.dumps(tests[1:])),
        "metadata": json.dumps({} if name is None else {"func_name": name}),
    } | changes
