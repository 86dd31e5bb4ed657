"""Rows of code data sets as tests: HumanEval(+), MBPP(+) and KodCode."""

from collections.abc import Mapping
from typing import Any

from gmts.rewards.code.judge import Tests


def humaneval_tests(row: Mapping[str, Any]) -> Tests:
    """Return the tests of a row of HumanEval or HumanEval+ (its base tests): check(function)."""
    call = f"\ncheck({row['entry_point']})\n"
    return Tests(kind="assert", source=row["test"] + call, entry_point=row["entry_point"])


def mbpp_tests(row: Mapping[str, Any]) -> Tests:
    """Return the assertions of a row of MBPP, after the row's own preparation."""
    lines = [row.get("test_setup_code", ""), *row["test_list"]]
    return Tests(kind="assert", source="\n".join(lines).replace("\r\n", "\n"))


def mbppplus_tests(row: Mapping[str, Any]) -> Tests:
    """Return the assertions of a row of MBPP+ (its base tests)."""
    return Tests(kind="assert", source=row["assertion"], entry_point=row["entry_point"])


def kodcode_tests(row: Mapping[str, Any]) -> Tests:
    """Return the tests of a row of KodCode (`test`, or `test_code` as its pipeline writes)."""
    return Tests(kind="pytest", source=row["test"] if "test" in row else row["test_code"])
