"""verl's checkpoints: which to resume from, which to keep, and a model folder out of one.

verl writes global_step_N/{data.pt, actor/*}; its own retention forgets what an earlier process
wrote and keeps the rest of a step's folder. A checkpoint counts if it is complete and its step's
metrics have been written, so that a resumed run has neither gap nor repetition.
"""

import json
import logging
import re
import shutil
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

logger = logging.getLogger(__name__)

_NAME = re.compile(r"global_step_(\d+)")
_PARTS = ("model", "optim", "extra_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlCheckpoint:
    """A complete checkpoint."""

    path: Path
    step: int
    num_ranks: int
    """Ranks that wrote it."""


def found_in(folder: Path) -> list[VerlCheckpoint]:
    """Return the complete checkpoints in `folder`, by rising step."""
    found = []
    for path in folder.glob("global_step_*"):
        name = _NAME.fullmatch(path.name)
        num_ranks = _ranks_if_complete(path)
        if name is not None and num_ranks is not None:
            found.append(VerlCheckpoint(path=path, step=int(name[1]), num_ranks=num_ranks))
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def _ranks_if_complete(path: Path) -> int | None:
    """Return by how many ranks `path` was written; None if anything is missing or cut short.

    torch.save writes zip archives, whose directory comes last.
    """
    try:
        text = (path / "actor" / "fsdp_config.json").read_text(encoding="utf-8")
        num_ranks = int(json.loads(text)["world_size"])
    except (OSError, ValueError, KeyError):
        return None
    files = [path / "data.pt"]
    for rank in range(num_ranks):
        files += [
            path / "actor" / f"{part}_world_size_{num_ranks}_rank_{rank}.pt" for part in _PARTS
        ]
    complete = all(file.is_file() and zipfile.is_zipfile(file) for file in files)
    return num_ranks if complete else None


def resume_point(
    folder: Path, logged_steps: Collection[int], *, num_ranks: int
) -> VerlCheckpoint | None:
    """Return the newest checkpoint to resume from, and delete what came after it.

    Args:
        folder: With the checkpoints.
        logged_steps: Steps whose metrics have been written.
        num_ranks: Ranks of the run that starts.

    Raises:
        ValueError: If the checkpoint was written by another number of ranks: verl's shards of
            weights and moments fit no other.
    """
    usable = [checkpoint for checkpoint in found_in(folder) if checkpoint.step in logged_steps]
    chosen = usable[-1] if usable else None
    if chosen is not None and chosen.num_ranks != num_ranks:
        raise ValueError(
            f"the number of ranks must stay {chosen.num_ranks} to resume from {chosen.path}, got "
            f"{num_ranks}; go back to {chosen.num_ranks} (verl: trainer.n_gpus_per_node times "
            "trainer.nnodes), or export that checkpoint and start a run from it"
        )
    for path in folder.glob("global_step_*"):
        name = _NAME.fullmatch(path.name)
        if name is not None and (chosen is None or int(name[1]) > chosen.step):
            logger.info("%s is incomplete or not in the metrics: deleted", path)
            shutil.rmtree(path)
    return chosen


def prune(folder: Path, *, kept: int, newest_step: int, accuracy: Mapping[int, float]) -> None:
    """Delete all but the best and the `kept` newest complete checkpoints up to `newest_step`.

    What lies above, a checkpoint under way perhaps, is left alone; nothing is deleted before its
    successor is complete.

    Args:
        folder: With the checkpoints.
        kept: How many of the newest stay.
        newest_step: The last whose metrics have been written.
        accuracy: Validation accuracy by step; of equals the earliest is the best.
    """
    usable = [checkpoint for checkpoint in found_in(folder) if checkpoint.step <= newest_step]
    judged = [checkpoint for checkpoint in usable if checkpoint.step in accuracy]
    best = max(judged, key=lambda found: (accuracy[found.step], -found.step), default=None)
    for checkpoint in usable[:-kept]:
        if checkpoint is not best:
            shutil.rmtree(checkpoint.path)


def load_policy(checkpoint: VerlCheckpoint, dtype: str) -> Any:
    """Return the checkpoint's policy as a model of transformers on the CPU.

    Args:
        checkpoint: Of any number of ranks; no process group is needed.
        dtype: Of training, a name of torch. verl's own merger writes bfloat16.

    Raises:
        ValueError: If the shards are not those of the model.
    """
    folder = checkpoint.path / "actor"
    shards = [
        torch.load(
            folder / f"model_world_size_{checkpoint.num_ranks}_rank_{rank}.pt",
            weights_only=False,  # DTensors; we wrote the file ourselves
            map_location="cpu",
        )
        for rank in range(checkpoint.num_ranks)
    ]
    weights = {name: _merged([shard[name] for shard in shards]) for name in shards[0]}
    config = AutoConfig.from_pretrained(folder / "huggingface")
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    if (folder / "huggingface" / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder / "huggingface")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{folder} must hold the weights of its config: {error}") from error
    return model.eval()


def _merged(parts: list[Any]) -> Tensor:
    """Return a whole tensor from its shards, rank by rank."""
    first = parts[0]
    whole: Tensor
    if not isinstance(first, DTensor):
        whole = first
        return whole
    placement = first.placements[-1]
    local = [part.to_local() for part in parts]
    if isinstance(placement, Shard):
        return torch.cat(local, placement.dim)
    whole = local[0]
    return whole
