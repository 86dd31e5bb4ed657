"""Fixtures for all tests, and the rule that a test skipped in CI is an error unless listed."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _listed_skips() -> dict[str, str]:
    lines = (ROOT / "tests" / "SKIPS").read_text(encoding="utf-8").splitlines()
    entries = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {entry[0]: entry[1] for entry in entries}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if (
        os.environ.get("CI") == "true"
        and report.skipped
        and not hasattr(report, "wasxfail")
        and item.nodeid.split("::")[0] not in _listed_skips()
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI and is not listed in tests/SKIPS"
    return report


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this clone."""
    return ROOT
