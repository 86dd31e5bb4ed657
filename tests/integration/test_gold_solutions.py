"""Canonical solutions pass, and broken ones pass no more often than in one process."""

import pytest

from benchmarks.gold_solutions import table
from tests.support.shared import shared_file


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_canonical_solutions_pass_and_mutants_no_more_than_plainly():
    data = shared_file("data/MANIFEST.json").parent
    for name, row in table(data, every=4).items():
        excluded = [*row.refused, *row.failed]
        assert len(excluded) <= max(1, 0.03 * row.rows), (name, excluded)
        assert row.mutants > 0.5 * row.rows
        assert row.passed_here <= row.passed_plainly, name
