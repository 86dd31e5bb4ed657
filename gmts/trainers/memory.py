"""What an experiment takes of one device's memory, and of the disk: a stated estimate.

P parameters, w bytes of a weight that AdamW updates, c bytes of a number in a pass, R ranks that
share the weights, T tokens of a pass, V vocabulary, H hidden size, L layers. docs/gpu.md has the
formula in full. An estimate of peaks, not a bound: allocators round up and libraries keep buffers.
"""

from dataclasses import dataclass

from gmts.models.shape import ModelShape

GIB = 1 << 30
LOGIT_COPIES = 4
"""verl holds logits, logits / T, their log-softmax and its gradient at once."""
ENGINE_OVERHEAD_BYTES = 2 * GIB
"""vLLM's own: activations of a prefill, CUDA graphs."""
CHUNK_BYTES = 4 * (32 << 20)
"""Our own head works in chunks of 32 MiB, a few at once."""
STORED_PER_PARAM = 3
"""A checkpoint holds the weights and two moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What decides the memory of one rank."""

    shape: ModelShape
    num_ranks: int
    weights_bytes: int
    """Of one weight that AdamW updates: w."""
    compute_bytes: int
    """Of one number in a pass: c."""
    pass_tokens: int
    """Tokens of one pass with gradients, padding included: T."""
    full_logits: bool
    """The logits of all T tokens exist at once (verl), or of a chunk (standalone)."""
    checkpointing: bool
    reference: bool
    offload_weights: bool
    offload_optimizer: bool


Terms = dict[str, int]
"""Name -> bytes on one rank."""


def resident_terms(load: Load) -> Terms:
    """Return what stays on the device between passes: weights, moments, the reference policy."""
    params, ranks = load.shape.num_params, load.num_ranks
    terms = {
        "weights": params * load.weights_bytes // ranks,
        "optimizer": 2 * params * load.weights_bytes // ranks,
    }
    if load.reference:
        terms["reference"] = params * load.compute_bytes // ranks
    return terms


def training_terms(load: Load) -> Terms:
    """Return the terms of the largest pass with gradients."""
    shape, tokens, compute = load.shape, load.pass_tokens, load.compute_bytes
    terms = resident_terms(load)
    terms["gradients"] = shape.num_params * load.weights_bytes // load.num_ranks
    if load.num_ranks > 1 or load.weights_bytes != compute:
        # FSDP gathers two layers at a time, in the passes' dtype; embedding and head stay gathered.
        terms["gathered weights"] = (2 * shape.layer_params + shape.embedding_params) * compute
    per_layer = shape.layer_values * compute * tokens
    kept = shape.num_layers * shape.hidden_size * compute * tokens
    terms["activations"] = kept + per_layer if load.checkpointing else shape.num_layers * per_layer
    terms["logits"] = LOGIT_COPIES * tokens * shape.vocab_size * compute
    if not load.full_logits:
        terms["logits"] = min(terms["logits"], CHUNK_BYTES)
    return terms


def sampling_terms(load: Load, *, engine_bytes: int) -> Terms:
    """Return the terms of sampling: the rollout engine, and what stays beside it."""
    terms = resident_terms(load)
    if load.offload_weights:
        terms = {name: size for name, size in terms.items() if name == "optimizer"}
    if load.offload_optimizer:
        terms.pop("optimizer")
    return terms | {"rollout engine": engine_bytes}


def sampler_bytes(load: Load, *, sequences: int, max_tokens: int, own_weights: bool) -> int:
    """Return what our own sampler takes: a KV cache and, beside verl, its own weights."""
    cache = sequences * max_tokens * load.shape.kv_values * load.compute_bytes
    return cache + (load.shape.num_params * load.compute_bytes if own_weights else 0)


def full_length_responses(
    load: Load, *, engine_bytes: int, tensor_parallel: int, max_tokens: int
) -> int:
    """Return how many sequences of `max_tokens` fit into vLLM's KV cache on one copy at once."""
    weights = load.shape.num_params * load.compute_bytes // tensor_parallel
    free = engine_bytes - weights - ENGINE_OVERHEAD_BYTES
    # Key and value heads are split over the copy's GPUs as far as there are heads.
    split = min(tensor_parallel, load.shape.num_kv_heads)
    per_sequence = max_tokens * load.shape.kv_values * load.compute_bytes // split
    return max(0, free // per_sequence)


def disk_bytes(load: Load, *, checkpoints_kept: int) -> int:
    """Return what a run leaves on disk: checkpoints, one more while it is written, two models.

    DVC's cache may hold the two models a second time.
    """
    checkpoint = STORED_PER_PARAM * load.shape.num_params * load.weights_bytes
    models = 4 * load.shape.num_params * load.compute_bytes
    return (checkpoints_kept + 1) * checkpoint + models
