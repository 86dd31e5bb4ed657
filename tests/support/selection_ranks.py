"""What each of four gloo processes checks; started by test_selection_spread.py.

Sub-groups of 1, 2 and 4 ranks share the start of the processes. Every rank builds the whole
mini-batch, selects on it alone, and compares with what the ranks find together, each holding some
rows, padded as it likes.
"""

import math
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed

from gmts.batch import TokenStats
from gmts.selection.scores import Scores, score_tokens
from gmts.selection.select import select_tokens
from gmts.selection.statistics import selection_metrics
from gmts.selection.topk import Candidates, top_k
from tests.support import selection_reference
from tests.support.core import selection, token_batch
from tests.support.selection_cases import random_case, scored

WORLD_SIZE = 4
NUM_CASES = {1: 5, 2: 20, 4: 40}


def run_rank(rank: int, folder: str) -> None:
    """Join the group, check everything, and leave a file that counts the cases per group size."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD_SIZE,
        timeout=timedelta(seconds=60),
    )
    groups = {size: distributed.new_group(list(range(size))) for size in NUM_CASES}
    done = {}
    for size, group in groups.items():
        if rank < size:
            for case in range(NUM_CASES[size]):
                check_masks(case, rank, size, group)
            check_metrics(rank, size, group)
            check_collisions(rank, size, group)
            check_faults(rank, size, group)
            done[size] = NUM_CASES[size]
    Path(folder, f"rank{rank}").write_text(repr(done))
    distributed.destroy_process_group()


def share(case: int, rank: int, size: int, rows: int) -> torch.Tensor:
    """Return the rows of this rank: groups are spread, and a rank may get none."""
    generator = torch.Generator().manual_seed(case)
    owner = torch.randint(0, size, (rows,), generator=generator)
    return (owner == rank).nonzero()[:, 0]


def part_of(batch, scores, rows, extra: int):
    """Return these rows with the padding that this rank needs, and `extra` columns more."""
    width = int(batch.response_mask[rows].sum(1).max()) if len(rows) else 0

    def cut(tensor, value):
        return torch.nn.functional.pad(tensor[rows][:, :width], (0, extra), value=value)

    own = replace(
        batch.rows(rows),
        response_ids=cut(batch.response_ids, 0),
        response_mask=cut(batch.response_mask, False),
        old_log_probs=cut(batch.old_log_probs, 0.0),
    )
    return own, Scores(values=cut(scores.values, 0.0), eligible=cut(scores.eligible, False))


def check_masks(case: int, rank: int, size: int, group) -> None:
    batch, scores = random_case(case)
    config = selection(
        ratio=(0.07, 0.2, 0.5, 0.9, 1.0)[case % 5],
        side=("top", "bottom")[case // 5 % 2],
        scope=("batch", "group")[case // 10 % 2],
    )
    alone = select_tokens(scores, batch, config, seed=case, step=3)
    num_rows = len(batch.sample_ids)
    if case % 10 == 0:
        expected = selection_reference.select(
            scores.values.tolist(),
            batch.response_mask.tolist(),
            scores.eligible.tolist(),
            batch.sample_ids.tolist(),
            batch.group_ids.tolist() if config.scope == "group" else [0] * num_rows,
            ratio=config.ratio,
            side=config.side,
            seed=case,
            step=3,
        )
        assert alone.mask.tolist() == expected
    rows = share(case, rank, size, num_rows)
    own, own_scores = part_of(batch, scores, rows, extra=(case + rank) % 3)
    for exchange in ("gather", "radix"):
        found = select_tokens(
            own_scores, own, config, seed=case, step=3, process_group=group, exchange=exchange
        )
        width = min(found.mask.shape[1], alone.mask.shape[1])
        assert torch.equal(found.mask[:, :width], alone.mask[rows][:, :width]), (case, exchange)
        assert not found.mask[:, width:].any()
        assert not alone.mask[rows][:, width:].any()
        assert replace(found, mask=None) == replace(alone, mask=None), (case, exchange)


def check_metrics(rank: int, size: int, group) -> None:
    """Metrics over ranks are those of one process; micro-batches lie on one rank each."""
    generator = torch.Generator().manual_seed(8)
    mask = torch.arange(9) < torch.randint(1, 10, (16, 1), generator=generator)
    advantages = torch.tensor([-1.0, 0.0, 0.5, 1.0]).repeat(4)
    batch = token_batch(mask, advantages=advantages, group_ids=torch.arange(16) % 4)
    entropy = torch.rand(mask.shape, generator=generator)
    stats = TokenStats(log_probs=-entropy, entropy=entropy, logit_grad_norm=entropy)
    clipped = torch.rand(mask.shape, generator=generator) < 0.3
    parts = torch.arange(16) * size // 16

    def metrics(rows, process_group):
        part = batch.rows(rows)
        part_stats = TokenStats(
            log_probs=-entropy[rows], entropy=entropy[rows], logit_grad_norm=entropy[rows]
        )
        omega = part.advantages[:, None].expand(len(rows), 9)
        scores = score_tokens(part_stats, omega, part, "gmts", seed=0, step=0)
        common = {"seed": 0, "step": 0, "process_group": process_group}
        common["micro_batch_ids"] = parts[rows]
        chosen = select_tokens(scores, part, selection(), **common)
        return selection_metrics(
            chosen, scores, part_stats, part, clipped[rows], selection(), **common
        )

    alone = metrics(torch.arange(16), None)
    together = metrics((parts == rank).nonzero()[:, 0], group)
    assert stats.entropy.shape == mask.shape
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        assert math.isclose(together[name], value, rel_tol=1e-12), name


def check_collisions(rank: int, size: int, group) -> None:
    """Where even tie keys are equal, sample ids decide, not ranks."""
    ids = torch.randperm(40, generator=torch.Generator().manual_seed(2)) * 1000
    rows = torch.arange(40)[rank::size]
    for exchange in ("gather", "radix"):
        chosen = top_k(
            Candidates(
                keys=torch.full((len(rows), 1), 77, dtype=torch.int32),
                scopes=torch.zeros_like(rows),
                sample_ids=ids[rows],
                tie_states=torch.zeros_like(rows),
                first=torch.zeros_like(rows),
            ),
            torch.tensor([13]),
            process_group=group,
            exchange=exchange,
        )
        assert torch.equal(chosen[:, 0], ids[rows] < 13_000)


def check_faults(rank: int, size: int, group) -> None:
    """A fault on one rank is an error on all, or the others would wait for ever."""
    last = rank == size - 1
    batch = token_batch([[True, True]], sample_ids=[rank])
    broken = scored([[1.0, math.nan if last else 2.0]], zeros_eligible=True)
    own = f"sample {rank} at position 1" if last else "got faults on 1 other ranks"
    expect(own, broken, batch, group)
    good = scored([[1.0, 2.0]])
    if size > 1:
        same = token_batch([[True, True]], sample_ids=[0])
        expect("got 0 more than once", good, same, group)
    nothing = token_batch([[False, False]], sample_ids=[rank])
    expect("at least one response token", scored([[0.0, 0.0]], [[False, False]]), nothing, group)


def expect(message: str, scores, batch, group) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        select_tokens(scores, batch, selection(), seed=0, step=0, process_group=group)
