"""Which response tokens carry loss."""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch
from gmts.selection.config import Scope, SelectionConfig, Side
from gmts.selection.scores import Scores
from gmts.selection.ties import tie_keys
from gmts.selection.topk import Candidates, Exchange, gather_candidates, top_k, top_k_per_group
from gmts.tensors import gather_rows, global_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected tokens of this rank, and counts over all ranks."""

    mask: Bool[Tensor, "B T"]
    threshold: float | None
    """Smallest selected score (side bottom: the largest); None if nothing is selected."""
    num_selected: int
    num_eligible: int
    num_response_tokens: int
    """N."""
    saturated: bool
    """Fewer tokens were eligible than asked for, in some scope."""


def num_wanted(ratio: Decimal, num_tokens: int) -> int:
    """Return ceil(ratio * num_tokens) in exact arithmetic."""
    return math.ceil(ratio * num_tokens)


def select_tokens(
    scores: Scores,
    batch: TokenBatch,
    config: SelectionConfig,
    *,
    seed: int,
    step: int,
    process_group: ProcessGroup | None = None,
    micro_batch_ids: Int[Tensor, " B"] | None = None,
    exchange: Exchange = "auto",
) -> Selection:
    """Return the tokens of the optimizer mini-batch that carry loss.

    The top side takes the k = min(ceil(ratio * N), eligible) largest scores of its scope; bottom at
    ratio b takes the eligible tokens that top at 1 - b leaves. Ties are broken by a hash of (seed,
    step, sample id, position), so that the set depends on the scores alone.

    Args:
        scores: Of the whole mini-batch; this rank's share of it.
        batch: The same rows.
        config: Ratio, side, scope; score none selects every token.
        seed: Of the run.
        step: Optimizer step.
        process_group: Ranks that share the mini-batch; None for one process.
        micro_batch_ids: Micro-batch of each row, for scope micro_batch.
        exchange: See `gmts.selection.topk.top_k`.

    Raises:
        ValueError: If there is no response token at all, sample ids repeat, shapes disagree, or
            scope micro_batch comes without micro_batch_ids.
    """
    mask = batch.response_mask
    _check(scores, batch)
    counts = torch.stack([mask.sum(), scores.eligible.sum()])
    num_tokens, num_eligible = global_sum(counts, process_group).tolist()
    if num_tokens == 0:
        raise ValueError("the mini-batch must have at least one response token, got none")
    if config.score == "none":
        chosen, saturated = mask, False
    else:
        pool = _Pool(scores, batch, seed, step)
        ratio = Decimal(str(config.ratio))
        top_ratio = ratio if config.side == "top" else 1 - ratio
        scope_ids = _scope_ids(config.scope, batch, micro_batch_ids)
        # A micro-batch lies on one rank.
        ranks = None if config.scope == "micro_batch" else process_group
        if scope_ids is None:
            k = min(num_wanted(top_ratio, num_tokens), num_eligible)
            saturated = num_wanted(top_ratio, num_tokens) > num_eligible
            top = top_k(pool.candidates, k, process_group=ranks, exchange=exchange)
        else:
            top, saturated = _top_per_scope(pool, scope_ids, top_ratio, ranks)
        chosen = pool.mask(top if config.side == "top" else ~top)
    num_selected = int(global_sum(chosen.sum(), process_group))
    return Selection(
        mask=chosen,
        threshold=_threshold(scores.values[chosen], num_selected, config.side, process_group),
        num_selected=num_selected,
        num_eligible=num_eligible,
        num_response_tokens=num_tokens,
        saturated=saturated,
    )


class _Pool:
    """The eligible tokens of this rank as a flat list."""

    def __init__(self, scores: Scores, batch: TokenBatch, seed: int, step: int) -> None:
        self.shape = batch.response_mask.shape
        self.tokens = batch.response_mask
        self.rows, self.positions = scores.eligible.nonzero(as_tuple=True)
        self.candidates = Candidates(
            scores=scores.values[self.rows, self.positions],
            ties=functools.partial(tie_keys, seed=seed, step=step),
            sample_ids=batch.sample_ids[self.rows],
            positions=self.positions,
        )

    def mask(self, chosen: Tensor) -> Tensor:
        """Return [B, T] from [M]."""
        result = torch.zeros(self.shape, dtype=torch.bool, device=chosen.device)
        result[self.rows[chosen], self.positions[chosen]] = True
        return result


def _scope_ids(scope: Scope, batch: TokenBatch, micro_batch_ids: Tensor | None) -> Tensor | None:
    if scope == "batch":
        return None
    if scope == "group":
        return batch.group_ids
    if micro_batch_ids is None or micro_batch_ids.shape != batch.sample_ids.shape:
        found = None if micro_batch_ids is None else tuple(micro_batch_ids.shape)
        raise ValueError(
            "micro_batch_ids must be given for selection.scope micro_batch, one per row "
            f"({len(batch.sample_ids)}), got {found}"
        )
    return micro_batch_ids


def _top_per_scope(
    pool: _Pool, scope_ids: Tensor, ratio: Decimal, process_group: ProcessGroup | None
) -> tuple[Tensor, bool]:
    """Return the top of each scope among this rank's candidates; a scope may span ranks."""
    per_row = torch.stack([scope_ids, pool.tokens.sum(1)], 1)
    sizes = _sums(gather_rows(per_row, process_group)[0])
    own_ids = scope_ids[pool.rows]
    everywhere, own = gather_candidates(pool.candidates, process_group)
    ids, _ = gather_rows(own_ids, process_group)
    wanted = {scope: num_wanted(ratio, size) for scope, size in sizes.items()}
    eligible = _sums(torch.stack([ids, torch.ones_like(ids)], 1))
    saturated = any(k > eligible.get(scope, 0) for scope, k in wanted.items())
    return top_k_per_group(everywhere, ids, wanted)[own], saturated


def _sums(pairs: Tensor) -> dict[int, int]:
    """Return the sum of the second column for each value of the first."""
    keys, index = torch.unique(pairs[:, 0], return_inverse=True)
    sums = torch.zeros_like(keys).index_add_(0, index, pairs[:, 1])
    return dict(zip(keys.tolist(), sums.tolist(), strict=True))


def _threshold(
    selected: Tensor, num_selected: int, side: Side, process_group: ProcessGroup | None
) -> float | None:
    if num_selected == 0:
        return None
    sign = 1.0 if side == "top" else -1.0
    worst = (sign * selected).min() if len(selected) else selected.new_tensor(math.inf)
    if process_group is not None:
        distributed.all_reduce(worst, op=distributed.ReduceOp.MIN, group=process_group)
    return sign * float(worst)


def _check(scores: Scores, batch: TokenBatch) -> None:
    mask = batch.response_mask
    if mask.dtype != torch.bool or scores.eligible.dtype != torch.bool:
        raise ValueError(
            f"masks must be bool, got {mask.dtype} for response_mask and "
            f"{scores.eligible.dtype} for eligible"
        )
    for name, tensor in (("scores", scores.values), ("eligible", scores.eligible)):
        if tensor.shape != mask.shape:
            raise ValueError(
                f"{name} must have the shape of response_mask {tuple(mask.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    if scores.values.dtype != torch.float32:
        raise ValueError(f"scores must be float32, got {scores.values.dtype}")
    if bool((scores.eligible & ~mask).any()):
        raise ValueError("eligible must lie within response_mask, got tokens outside of it")
    values = scores.values[scores.eligible]
    if bool((~torch.isfinite(values) | (values < 0)).any()):
        raise ValueError("scores must be finite and >= 0, got a NaN, infinite or negative one")
    if len(torch.unique(batch.sample_ids)) != len(batch.sample_ids):
        raise ValueError("sample_ids must be unique within the mini-batch, got repeated ones")
