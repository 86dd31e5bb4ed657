"""Small mini-batches with heavy ties, zeros and ragged rows, for tests of selection."""

import torch

from gmts.batch import TokenBatch
from gmts.selection.scores import Scores
from tests.support.core import token_batch

LEVELS = (0.0, -0.0, 1e-42, 0.25, 0.5, 0.5000001, 3.0, 1e30)
"""Few values, so that most tokens tie; among them both zeros and a subnormal number."""


def scored(values, mask=None, *, zeros_eligible=False) -> Scores:
    values = torch.as_tensor(values, dtype=torch.float32)
    mask = torch.ones(values.shape, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
    values = torch.where(mask, values, 0.0)
    return Scores(values=values, eligible=mask if zeros_eligible else mask & (values > 0))


def random_case(seed: int, *, max_rows=10, max_columns=12) -> tuple[TokenBatch, Scores]:
    """Return a mini-batch with ragged right-padded rows, some of them empty, and its scores."""
    generator = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    rows, columns = number(1, max_rows), number(1, max_columns)
    lengths = torch.randint(0, columns + 1, (rows,), generator=generator)
    lengths[number(0, rows - 1)] = columns
    mask = torch.arange(columns) < lengths[:, None]
    levels = torch.tensor(LEVELS)[torch.randperm(len(LEVELS), generator=generator)]
    levels = levels[: number(1, len(LEVELS))]
    values = levels[torch.randint(0, len(levels), mask.shape, generator=generator)]
    ids = torch.randperm(1000, generator=generator)[:rows] * number(1, 10**15)
    batch = token_batch(
        mask, sample_ids=ids, group_ids=torch.randint(0, 4, (rows,), generator=generator)
    )
    return batch, scored(values, mask, zeros_eligible=bool(number(0, 1)))
