"""What each rank selected from, for whoever wants to check a run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from gmts.batch import TokenBatch, TokenStats
from gmts.trainers.update.plan import Plan
from gmts.trainers.verl.options import VerlOptions


def write_dump(
    options: VerlOptions, step: int, batch: TokenBatch, plan: Plan, writers: Sequence[object]
) -> None:
    """Write this rank's share of an optimizer step, if the options name a folder for it.

    Args:
        options: With the folder.
        step: Number of the optimizer step, from 0.
        batch: This rank's rows.
        plan: What was made of them.
        writers: Objects whose classes and base classes are recorded: worker and engine.
    """
    if options.dump_dir is None:
        return
    folder = Path(options.dump_dir)
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "batch": asdict(batch),
        "stats": asdict(plan.stats),
        "selected": plan.selection.mask,
        "weights": asdict(plan.weights),
        "classes": [
            f"{kind.__module__}.{kind.__name__}" for own in writers for kind in type(own).__mro__
        ],
    }
    torch.save(content, folder / f"step-{step:06d}-rank-{distributed.get_rank()}.pt")


def read_dump(folder: Path, step: int) -> list[tuple[TokenBatch, TokenStats, dict[str, Any]]]:
    """Return each rank's batch, statistics of the scored policy, and the rest by name.

    Raises:
        FileNotFoundError: If no rank has written that step.
    """
    files = sorted(folder.glob(f"step-{step:06d}-rank-*.pt"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no dump of optimizer step {step}")
    dumps = []
    for file in files:
        content = torch.load(file, weights_only=True)
        batch, stats = TokenBatch(**content.pop("batch")), TokenStats(**content.pop("stats"))
        dumps.append((batch, stats, content))
    return dumps
