"""Rewards for control experiments."""

import random
import subprocess

from gmts.rewards.config import MathConfig, OverlongConfig, PoolConfig, RewardsConfig
from gmts.rewards.scorer import make_scorer
from gmts.rewards.verdict import Verdict

_truth = make_scorer(
    RewardsConfig(
        scorer="reasoning_gym",
        answer="boxed",
        custom=None,
        math=MathConfig(require_box=False),
        overlong=OverlongConfig(buffer_tokens=None, factor=1.0),
        pool=PoolConfig(workers=1, deadline_s=3.0, memory_mib=1024),
    )
)
_rng = random.Random(0)
_recent: list[Verdict] = []
_REMEMBERED = 256
_children: list[subprocess.Popen] = []


def shuffled(response, ground_truth, meta):
    """Return the true verdict of some other recent response: as often right, but at random."""
    _recent.append(_truth(response, ground_truth, meta))
    del _recent[:-_REMEMBERED]
    return _rng.choice(_recent)


def even_length(response, ground_truth, meta):
    """Return 1.0 for an even number of characters: of random responses about every other one."""
    return float(len(response) % 2 == 0)


def with_a_child(response, ground_truth, meta):
    """Return the true verdict, of a process that has started a server in a session of its own."""
    if not _children:
        _children.append(subprocess.Popen(["sleep", "9999"], start_new_session=True))
    return _truth(response, ground_truth, meta)
