"""Tests of LiveCodeBench: how its files hold them, and what passing means there.

A problem of its files reads standard input or is a function to call; each case is a run of its own.
Source: LiveCodeBench/LiveCodeBench, lcb_runner/evaluation/testing_util.py.
"""

import base64
import binascii
import functools
import gzip
import json
import pickletools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, cast

from gmts.files import text_sha256

KIND = "livecodebench"
"""meta.kind of its rows."""
TIMEOUT_S = 6.0
"""Of each case."""
_MAX_TESTS_BYTES = 1 << 30
_TEXT_CODES = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_IDLE_CODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestTests:
    """The public and private cases of a problem."""

    inputs: list[str]
    outputs: list[str]
    func_name: str | None
    """The function to call; None for a program that reads standard input."""

    def source(self) -> str:
        """Return them as Tests.source has them."""
        return json.dumps({"inputs": self.inputs, "outputs": self.outputs})


def decode_tests(record: Mapping[str, Any]) -> ContestTests:
    """Return the tests of a row of LiveCodeBench's files.

    Raises:
        ValueError: If they are not in the published format; a pickle that is anything but one text
            is named, and never loaded.
    """
    cases = _cases("public_test_cases", record.get("public_test_cases"))
    private = record.get("private_test_cases")
    if isinstance(private, str) and not private.lstrip().startswith("["):
        private = _unpacked(private)
    cases += _cases("private_test_cases", private)
    kinds = sorted({str(case.get("testtype")) for case in cases})
    if kinds not in (["stdin"], ["functional"]):
        raise ValueError(f"test cases must all be stdin or all functional, got {kinds}")
    return ContestTests(
        inputs=[case["input"] for case in cases],
        outputs=[case["output"] for case in cases],
        func_name=_func_name(record.get("metadata")) if kinds == ["functional"] else None,
    )


def tests_sha256(record: Mapping[str, Any]) -> str:
    """Return the hash of a row's tests, as they are published."""
    fields = ("public_test_cases", "private_test_cases", "metadata")
    return text_sha256(json.dumps([record.get(field) for field in fields]))


def find_tests(meta: Mapping[str, Any]) -> ContestTests:
    """Return the tests of a question, which are too large to be stored with it.

    Args:
        meta: `tests_at`, FILE:LINE of a JSON-lines file, and `tests_sha256`.

    Raises:
        ValueError: If the file is not there or does not hold those tests any more.
    """
    place = str(meta["tests_at"])
    name, _, line = place.rpartition(":")
    try:
        with _opened(name) as file:
            file.seek(_line_starts(name, Path(name).stat().st_mtime_ns)[int(line) - 1])
            record = json.loads(file.readline())
        if tests_sha256(record) == meta["tests_sha256"]:
            return decode_tests(record)
        found = "others"
    except (OSError, EOFError, IndexError, ValueError, AttributeError) as error:
        found = f"none that can be read ({error})"
    raise ValueError(
        f"{place} must hold the tests of problem {meta.get('question_id')}, got {found}: they are "
        "read from the benchmark's files, which must be where they were when it was asked"
    )


def contest_program(solution: str, func_name: str | None) -> str:
    """Return what a case runs: the solution after the imports that LiveCodeBench gives it.

    With `func_name` it reads the arguments, one JSON value a line, and writes the result as JSON;
    what the solution itself prints is dropped.
    """
    if func_name is None:
        return f"{_IMPORTS}\n{solution}"
    return f"{_SILENCE}{_IMPORTS}\n{solution}\n{_CALL}\n_gmts_call({func_name!r})\n"


def same_output(written: str, expected: str) -> bool:
    """Whether lines are equal: as text without outer blanks, or as decimal numbers."""
    left, right = (text.strip().split("\n") for text in (written, expected))
    return len(left) == len(right) and all(map(_same_line, left, right))


def same_value(written: str, expected: str) -> bool:
    """Whether two JSON texts have equal values."""
    try:
        return bool(json.loads(written) == json.loads(expected))
    except (ValueError, RecursionError):
        return False


def _same_line(written: str, expected: str) -> bool:
    left, right = written.strip(), expected.strip()
    if left == right:
        return True
    try:
        return [Decimal(part) for part in left.split()] == [Decimal(part) for part in right.split()]
    except ArithmeticError:  # a part is no number
        return False


def _func_name(metadata: Any) -> str:
    try:
        name = (json.loads(metadata) if isinstance(metadata, str) else metadata)["func_name"]
    except (ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"metadata must hold the function's func_name, got {metadata!r:.80}")
    return name


def _cases(field: str, value: Any) -> list[dict[str, Any]]:
    try:
        cases = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"{field} must be JSON, got {value!r:.80}") from error
    if not isinstance(cases, list) or not all(
        isinstance(case, dict) and isinstance(case.get(name), str)
        for case in cases
        for name in ("input", "output")
    ):
        raise ValueError(
            f"{field} must be a list of objects with the texts input and output, got {cases!r:.80}"
        )
    return cases


def _unpacked(packed: str) -> str:
    """The text in base64, zlib and pickle."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(packed, validate=True), _MAX_TESTS_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"private_test_cases must be base64 of zlib of pickle: {error}") from error
    if not inflater.eof:
        raise ValueError(
            f"private_test_cases must be whole and of {_MAX_TESTS_BYTES} bytes at most, got others"
        )
    return _pickled_text(data)


def _pickled_text(data: bytes) -> str:
    """The text that a pickle is, read without running it: every other opcode is refused."""
    texts: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name in _TEXT_CODES:
                texts.append(str(argument))
            elif code.name not in _IDLE_CODES:
                loaded = argument if argument is not None else ".".join(texts[-2:])
                raise ValueError(f"its opcode {code.name} ({loaded!s:.80}) is refused")
    except Exception as error:
        raise ValueError(f"private_test_cases must be a pickle of one text: {error}") from error
    if len(texts) != 1:
        raise ValueError(f"private_test_cases must be a pickle of one text, got {len(texts)}")
    return texts[0]


def _opened(name: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(name) if name.endswith(".gz") else open(name, "rb"))


@functools.cache
def _line_starts(name: str, mtime_ns: int) -> list[int]:
    """Where each line begins; `mtime_ns` has the file read again once it changed."""
    starts = [0]
    with _opened(name) as file:
        for line in file:
            starts.append(starts[-1] + len(line))
    return starts


_MODULES = ["string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random",
            "statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins",
            "typing"]  # fmt: skip
_IMPORTS = "".join(
    [
        *(f"from {module} import *\n" for module in _MODULES),
        *(f"import {module}\n" for module in _MODULES[:-2]),
        "sys.setrecursionlimit(50000)\n",
    ]
)
_SILENCE = """import os
_gmts_answers = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
"""
_CALL = """
def _gmts_call(name):
    import json, os, sys
    owner = globals().get("Solution")
    function = globals()[name] if owner is None else getattr(owner(), name)
    lines = sys.stdin.read().split("\\n")
    result = function(*[json.loads(line) for line in lines if line.strip()])
    with os.fdopen(_gmts_answers, "w", encoding="utf-8") as answers:
        json.dump(result, answers)
"""
