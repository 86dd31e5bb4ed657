"""The stated formula, worked out by hand on round numbers."""

import dataclasses

from gmts.models.shape import ModelShape
from gmts.trainers.memory import (
    GIB,
    Load,
    disk_bytes,
    full_length_responses,
    sampler_bytes,
    sampling_terms,
    training_terms,
)

SHAPE = ModelShape(
    vocab_size=1000,
    hidden_size=10,
    intermediate_size=20,
    num_layers=3,
    num_heads=2,
    num_kv_heads=1,
    head_dim=5,
    tied=False,
    max_positions=None,
)
# A layer: 10 x (5 x 6 + 60 + 2) = 920; embedding and head 20,000; final norm 10.
PARAMS = 3 * 920 + 20_000 + 10
LOAD = Load(
    shape=SHAPE,
    num_ranks=2,
    weights_bytes=4,
    compute_bytes=2,
    pass_tokens=100,
    full_logits=True,
    checkpointing=True,
    reference=True,
    offload_weights=False,
    offload_optimizer=False,
)


def test_training_holds_shards_a_gathered_part_activations_and_logits():
    assert PARAMS == SHAPE.num_params == 22_770
    assert training_terms(LOAD) == {
        "weights": 22_770 * 4 // 2,
        "optimizer": 2 * 22_770 * 4 // 2,
        "reference": 22_770 * 2 // 2,
        "gradients": 22_770 * 4 // 2,
        "gathered weights": (2 * 920 + 20_000) * 2,
        # Inputs of 3 layers, and one layer's 4 x 10 + 5 x 6 + 3 x 20 = 130 values per token.
        "activations": 3 * 10 * 2 * 100 + 130 * 2 * 100,
        "logits": 4 * 100 * 1000 * 2,
    }


def test_without_checkpointing_every_layers_activations_are_kept():
    load = dataclasses.replace(LOAD, checkpointing=False)
    assert training_terms(load)["activations"] == 3 * 130 * 2 * 100


def test_one_rank_with_one_dtype_gathers_nothing_and_chunks_its_logits():
    load = dataclasses.replace(LOAD, num_ranks=1, weights_bytes=2, full_logits=False)
    terms = training_terms(load)
    assert "gathered weights" not in terms
    assert terms["logits"] == 4 * 100 * 1000 * 2  # below the size of a chunk
    large = dataclasses.replace(load, pass_tokens=1_000_000)
    assert training_terms(large)["logits"] == 128 << 20


def test_offloading_leaves_the_engine_alone_while_responses_are_sampled():
    kept = sampling_terms(LOAD, engine_bytes=7)
    assert kept.keys() == {"weights", "optimizer", "reference", "rollout engine"}
    weights_away = dataclasses.replace(LOAD, offload_weights=True)
    assert sampling_terms(weights_away, engine_bytes=7).keys() == {"optimizer", "rollout engine"}
    all_away = dataclasses.replace(weights_away, offload_optimizer=True)
    assert sampling_terms(all_away, engine_bytes=7) == {"rollout engine": 7}


def test_our_sampler_takes_a_cache_and_beside_verl_its_own_weights():
    # 2 x 3 layers x 1 head x 5 = 30 numbers per token.
    assert sampler_bytes(LOAD, sequences=4, max_tokens=50, own_weights=False) == 4 * 50 * 30 * 2
    both = sampler_bytes(LOAD, sequences=4, max_tokens=50, own_weights=True)
    assert both == 4 * 50 * 30 * 2 + 22_770 * 2


def test_vllms_cache_holds_what_weights_and_overhead_leave():
    free = 10 * 50 * 30 * 2
    engine = 22_770 * 2 + 2 * GIB + free
    fitting = full_length_responses(LOAD, engine_bytes=engine, tensor_parallel=1, max_tokens=50)
    assert fitting == 10
    less = full_length_responses(LOAD, engine_bytes=engine - 1, tensor_parallel=1, max_tokens=50)
    assert less == 9
    assert full_length_responses(LOAD, engine_bytes=GIB, tensor_parallel=1, max_tokens=50) == 0


def test_the_disk_holds_the_checkpoints_one_more_and_the_models():
    assert disk_bytes(LOAD, checkpoints_kept=2) == 3 * (3 * 22_770 * 4) + 4 * 22_770 * 2
