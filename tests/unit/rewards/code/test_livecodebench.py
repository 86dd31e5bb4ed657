"""The tests of LiveCodeBench's rows: what is read, what is refused, what counts as the same."""

import base64
import json
import os
import pickle
import zlib

import pytest

from gmts.rewards.code import livecodebench
from gmts.rewards.code.livecodebench import decode_tests, find_tests, same_output, same_value
from tests.support.contests import contest_row, packed
from tests.support.exams import write_rows

CASES = [("1\n", "2\n"), ("5\n", "6\n"), ("é\n", "ü\n")]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_public_and_private_cases_are_read_from_every_protocol(protocol):
    row = contest_row(1, CASES)
    private = [{"input": i, "output": o, "testtype": "stdin"} for i, o in CASES[1:]]
    row["private_test_cases"] = packed(json.dumps(private, ensure_ascii=False), protocol)
    found = decode_tests(row)
    assert list(zip(found.inputs, found.outputs, strict=True)) == CASES
    assert found.func_name is None


def test_private_cases_may_be_plain_json_and_functions_are_named():
    row = contest_row(1, CASES[:1], func_name="addOne", private_test_cases="[]")
    assert decode_tests(row).func_name == "addOne"
    assert decode_tests(row | {"metadata": {"func_name": "addTwo"}}).func_name == "addTwo"


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    ("protocol", "name"), [(0, "posix system"), (2, "posix system"), (4, r"posix\.system")]
)
def test_a_pickle_that_would_run_something_is_refused_by_name(tmp_path, protocol, name):
    row = contest_row(1, CASES, private_test_cases=packed(Evil(tmp_path / "ran"), protocol))
    with pytest.raises(ValueError, match=rf"must be a pickle of one text: .*GLOBAL \({name}\)"):
        decode_tests(row)
    assert not (tmp_path / "ran").exists()
    assert pickle.loads(pickle.dumps(Evil(tmp_path / "ran"))) == 0  # it does run by itself
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"private_test_cases": packed([1])}, "pickle of one text: its opcode EMPTY_LIST"),
        ({"private_test_cases": packed(b"x")}, "pickle of one text: its opcode SHORT_BINBYTES"),
        ({"private_test_cases": "%%"}, "must be base64 of zlib of pickle"),
        ({"private_test_cases": base64.b64encode(b"xxxx").decode()}, "base64 of zlib of pickle"),
        ({"private_test_cases": packed("[]")[:16]}, "private_test_cases must be "),
        ({"private_test_cases": packed("{}")}, "must be a list of objects with the texts input"),
        ({"private_test_cases": packed("x")}, "private_test_cases must be JSON, got 'x'"),
        ({"private_test_cases": None}, "private_test_cases must be a list"),
        ({"public_test_cases": '[{"input": "1"}]'}, "public_test_cases must be a list of objects"),
        ({"public_test_cases": '[{"input": "1", "output": "1", "testtype": "functional"}]'},
         r"all be stdin or all functional, got \['functional', 'stdin'\]"),
    ],
)  # fmt: skip
def test_tests_in_another_format_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        decode_tests(contest_row(1, CASES, **changes))


@pytest.mark.parametrize("metadata", [None, "", "{}", "{", '{"func_name": "a b"}', [], {}])
def test_a_function_without_a_name_is_refused(metadata):
    with pytest.raises(ValueError, match="metadata must hold the function's func_name"):
        decode_tests(contest_row(1, CASES, func_name="f", metadata=metadata))


def test_a_text_that_grows_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(livecodebench, "_MAX_TESTS_BYTES", 1000)
    bomb = base64.b64encode(zlib.compress(bytes(100_000))).decode()
    with pytest.raises(ValueError, match="of 1000 bytes at most"):
        decode_tests(contest_row(1, CASES, private_test_cases=bomb))


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_tests_are_found_at_their_line_and_only_those(tmp_path, suffix):
    import gzip

    path = tmp_path / f"test.{suffix}"
    rows = [contest_row(number, CASES[number - 1 :]) for number in (1, 2)]
    text = "\n" + "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    meta = {
        "question_id": "abc2_a",
        "tests_at": f"{path}:3",
        "tests_sha256": livecodebench.tests_sha256(rows[1]),
    }
    assert find_tests(meta).inputs == ["5\n", "é\n"]
    for place in (f"{path}:2", f"{path}:1", f"{path}:9", f"{tmp_path / 'gone'}:3"):
        with pytest.raises(ValueError, match=r"must hold the tests of problem abc2_a, got "):
            find_tests(meta | {"tests_at": place})
    if suffix == "jsonl":
        write_rows(path, rows)  # a line less
        with pytest.raises(ValueError, match="must hold the tests of problem abc2_a"):
            find_tests(meta)


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        ("1\n2\n", "1\n2", True),
        (" 1 \n2  \n\n", "1\n2", True),
        ("1.0 2", "1 2.00", True),
        ("1e2", "100", True),
        ("0.1", "0.10000000001", False),
        ("Yes", "YES", False),
        ("1\n\n2", "1\n2", False),
        ("1  2", "1 2", True),  # as numbers; words have to be spaced alike
        ("a  b", "a b", False),
        ("sNaN", "1", False),
        ("", "0", False),
    ],
)
def test_output_is_compared_line_by_line_as_text_or_numbers(written, expected, same):
    assert same_output(written, expected) is same


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        ("[1, 2]", "[1,2]", True),
        ("2.0", "2", True),
        ("true", "true", True),
        ("[2, 1]", "[1, 2]", False),
        ('"2"', "2", False),
        ("", "null", False),
        ("[" * 100_000, "[]", False),
    ],
)
def test_results_are_compared_as_json_values(written, expected, same):
    assert same_value(written, expected) is same
