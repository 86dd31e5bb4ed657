"""Which rank trains on which rows: whole groups per mini-batch, even lengths per rank."""

from collections.abc import Sequence

from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions


def rank_rows(
    groups: Sequence[str],
    lengths: Sequence[int],
    *,
    group_size: int,
    groups_per_mini_batch: int,
    num_ranks: int,
) -> list[list[int]]:
    """Return the rows of each rank, mini-batch after mini-batch.

    verl spreads a batch's rows over all mini-batches, which tears groups apart; selection and the
    tie order are defined on mini-batches of whole groups. A group may lie on several ranks.

    Args:
        groups: Name of each row's group; padding rows have one of their own.
        lengths: Tokens of each row.
        group_size: Rows per group.
        groups_per_mini_batch: Groups per optimizer step.
        num_ranks: Ranks, of which each gets the same number of rows per mini-batch.

    Raises:
        ValueError: If mini-batches cannot be cut so.
    """
    size = group_size * groups_per_mini_batch
    if len(groups) % size or size % num_ranks:
        raise ValueError(
            f"a batch must consist of whole mini-batches of {size} rows that {num_ranks} ranks "
            f"can share, got {len(groups)} rows"
        )
    order = sorted(range(len(groups)), key=lambda row: groups[row])
    ranks: list[list[int]] = [[] for _ in range(num_ranks)]
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        parts = get_seqlen_balanced_partitions(
            [lengths[row] for row in rows], k_partitions=num_ranks, equal_size=True
        )
        for rank, part in enumerate(parts):
            ranks[rank].extend(rows[place] for place in part)
    return ranks
