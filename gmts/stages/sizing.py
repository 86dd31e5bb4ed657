"""Whether an experiment fits the devices' memory and the disk, before anything is loaded."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import psutil

from gmts.config import Params
from gmts.models.shape import ModelShape
from gmts.stages.findings import Findings
from gmts.trainers.memory import (
    GIB,
    Load,
    disk_bytes,
    full_length_responses,
    sampler_bytes,
    sampling_terms,
    training_terms,
)

USABLE_SHARE = 0.95
"""Of a GPU's memory; the rest goes to the CUDA context and to what allocators round up."""

_BYTES = {"float32": 4, "bfloat16": 2}


def model_load(params: Params, shape: ModelShape, max_tokens: int) -> Load:
    """Return what decides the memory of one rank.

    Args:
        params: The experiment.
        shape: Of the policy.
        max_tokens: Tokens of the longest prompt with the longest response.
    """
    compute = _BYTES[params.model.dtype]
    if params.train.backend == "standalone":
        return Load(
            shape=shape,
            num_ranks=1,
            weights_bytes=compute,
            compute_bytes=compute,
            pass_tokens=max(params.train.micro_batch_tokens, max_tokens),
            full_logits=False,
            checkpointing=False,
            reference=params.objective.beta > 0,
            offload_weights=False,
            offload_optimizer=False,
        )
    verl = params.verl
    rows = verl.micro_batch_size
    return Load(
        shape=shape,
        num_ranks=verl.nodes * verl.ranks_per_node,
        weights_bytes=_BYTES[verl.weights_dtype],
        compute_bytes=compute,
        pass_tokens=params.train.micro_batch_tokens if rows is None else rows * max_tokens,
        full_logits=True,
        checkpointing=verl.gradient_checkpointing,
        reference=params.objective.beta > 0,
        offload_weights=verl.offload_weights,
        offload_optimizer=verl.offload_optimizer,
    )


def check_memory(params: Params, load: Load, *, max_tokens: int, gpu_memory_gib: float) -> Findings:
    """Compare the largest pass and the sampling with the memory of one device."""
    on_gpu = params.runtime.device == "cuda"
    available = gpu_memory_gib * GIB * USABLE_SHARE
    where = f"of the {gpu_memory_gib:g} GiB of a GPU"
    if not on_gpu:
        local_ranks = params.verl.ranks_per_node if params.train.backend == "verl" else 1
        available = psutil.virtual_memory().available / local_ranks
        where = f"of this machine's free memory, shared by {local_ranks} ranks"
    engine = _engine_bytes(params, load, max_tokens, gpu_memory_gib)
    phases = {
        "training": training_terms(load),
        "sampling": sampling_terms(load, engine_bytes=engine),
    }
    lines, problems = [], []
    for phase, terms in phases.items():
        total = sum(terms.values())
        lines.append((f"memory, {phase}", f"{_gib(total)} per rank: {_terms(terms)}"))
        if total > available:
            problems.append(
                f"{phase} needs about {_gib(total)} per rank, more than {_gib(available)} "
                f"{where} that can be used; the largest part is {max(terms, key=terms.__getitem__)}"
                f" ({_gib(max(terms.values()))})"
            )
    found = Findings(lines=lines, problems=problems)
    if params.train.backend == "verl" and params.verl.rollout_engine == "vllm":
        found += _check_cache(params, load, engine, max_tokens)
    return found + _check_padding(params)


def _check_cache(params: Params, load: Load, engine: int, max_tokens: int) -> Findings:
    verl = params.verl
    fitting = full_length_responses(
        load, engine_bytes=engine, tensor_parallel=verl.tensor_parallel, max_tokens=max_tokens
    )
    if fitting < 1:
        return Findings(
            problems=[
                f"verl.gpu_memory_share must leave room for the weights and for one response of "
                f"full length ({max_tokens} tokens), got {verl.gpu_memory_share}: raise it, or "
                "verl.tensor_parallel"
            ]
        )
    asked = params.rollout.batch_size
    return Findings(
        lines=[
            (
                "KV cache",
                f"{min(fitting, asked)} of rollout.batch_size {asked} responses side by side if "
                f"all were of full length ({max_tokens} tokens)",
            )
        ]
    )


def _check_padding(params: Params) -> Findings:
    verl = params.verl
    padded = verl.attention == "sdpa" and verl.micro_batch_size is None
    if params.train.backend != "verl" or not padded:
        return Findings()
    return Findings(
        notes=[
            "verl.attention sdpa pads the rows of a pass to the longest, so a pass may take more "
            "than train.micro_batch_tokens: verl.micro_batch_size bounds it"
        ]
    )


def _engine_bytes(params: Params, load: Load, max_tokens: int, gpu_memory_gib: float) -> int:
    on_verl = params.train.backend == "verl"
    if on_verl and params.verl.rollout_engine == "vllm":
        return int(params.verl.gpu_memory_share * gpu_memory_gib * GIB)
    return sampler_bytes(
        load, sequences=params.rollout.batch_size, max_tokens=max_tokens, own_weights=on_verl
    )


def check_disk(params: Params, load: Load, root: Path) -> Findings:
    """Compare the checkpoints and models that a run leaves with the free space at `root`."""
    needed = disk_bytes(load, checkpoints_kept=params.train.checkpoints_kept)
    free = shutil.disk_usage(root).free
    line = ("disk", f"{_gib(needed)} for checkpoints and models; {_gib(free)} free")
    if needed <= free:
        return Findings(lines=[line])
    return Findings(
        lines=[line],
        problems=[
            f"{root} must have {_gib(needed)} free for {params.train.checkpoints_kept} checkpoints,"
            f" one more while it is written, and the models, got {_gib(free)}"
        ],
    )


def _terms(terms: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_gib(size)}" for name, size in terms.items())


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):.1f} MiB"
