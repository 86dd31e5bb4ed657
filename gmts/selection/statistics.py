"""What a selection did, in numbers; sums and sets over the whole mini-batch and all ranks."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.distributed import ProcessGroup

from gmts.batch import TokenBatch, TokenStats
from gmts.selection.config import SelectionConfig
from gmts.selection.scores import Scores, score_tokens
from gmts.selection.select import Selection, select_tokens
from gmts.tensors import global_sum, masked_sum


def selection_metrics(
    selection: Selection,
    scores: Scores,
    stats: TokenStats,
    batch: TokenBatch,
    clipped: Bool[Tensor, "B T"],
    config: SelectionConfig,
    *,
    seed: int,
    step: int,
    micro_batch_ids: Int[Tensor, " B"],
    process_group: ProcessGroup | None = None,
) -> dict[str, float]:
    """Return metrics under selection/.

    fraction: of all response tokens. positive, negative: share of the selected tokens that lie in
    responses with A > 0, A < 0; clipped: share that are clipped. score_kept: share of the total
    score. jaccard_ets, jaccard_micro_batch: overlap with what ets, or a rule applied within each
    micro-batch, would have chosen.
    """
    mask = selection.mask
    sign = batch.advantages[:, None]
    sums = torch.stack(
        [
            (mask & (sign > 0)).sum().double(),
            (mask & (sign < 0)).sum().double(),
            (mask & clipped).sum().double(),
            masked_sum(scores.values.double(), mask),
            masked_sum(scores.values.double(), batch.response_mask),
        ]
    )
    positive, negative, cut, kept, total = global_sum(sums, process_group).tolist()
    chosen = max(selection.num_selected, 1)
    metrics = {
        "selection/fraction": selection.num_selected / selection.num_response_tokens,
        "selection/eligible": selection.num_eligible / selection.num_response_tokens,
        "selection/saturated": float(selection.saturated),
        "selection/positive": positive / chosen,
        "selection/negative": negative / chosen,
        "selection/clipped": cut / chosen,
        "selection/score_kept": kept / total if total else 0.0,
    }
    if selection.threshold is not None:
        metrics["selection/threshold"] = selection.threshold
    if config.score == "none":
        return metrics
    entropy = score_tokens(
        stats, torch.zeros_like(stats.entropy), batch, "ets", seed=seed, step=step
    )
    others = {
        "ets": (entropy, replace(config, score="ets", scope="batch")),
        "micro_batch": (scores, replace(config, scope="micro_batch")),
    }
    for name, (other_scores, other_config) in others.items():
        other = select_tokens(
            other_scores,
            batch,
            other_config,
            seed=seed,
            step=step,
            process_group=process_group,
            micro_batch_ids=micro_batch_ids,
        )
        counts = torch.stack([(mask & other.mask).sum(), (mask | other.mask).sum()])
        both, either = global_sum(counts, process_group).tolist()
        metrics[f"selection/jaccard_{name}"] = both / either if either else 1.0
    return metrics
