import pytest

from gmts.rewards.code.judge import CodeJudge


@pytest.fixture(scope="session")
def judge():
    """One judge with one bench: every verdict follows the one before in the same sandbox."""
    with CodeJudge(workers=1) as made:
        yield made
