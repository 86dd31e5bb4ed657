"""Hidden states and statistics of responses against the models' own logits."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from gmts.trainers.standalone.forward import (
    head_of,
    plan_micro_batches,
    response_hidden,
    response_stats,
    row_lengths,
)
from tests.support.policies import mini_batch, policy

SIZES = {
    "vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ARCHITECTURES = {
    "qwen2": {},
    "llama": {"tie_word_embeddings": False},
    "mistral": {"sliding_window": 4},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "gpt_neox": {},
    "phi": {},  # a head with a bias
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 8},  # a head narrower than the model
    "bloom": {"n_layer": 2, "n_head": 2},  # positions by attention bias
}
TRANSFORMED = {"gemma2": {}, "cohere": {"logit_scale": 0.5}, "granite": {"logits_scaling": 4.0}}


def random_model(kind, options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(SIZES | options)))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
    return model.double().eval()


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_head_of_padded_hidden_states_gives_the_models_own_logits(kind):
    model = random_model(kind, ARCHITECTURES[kind])
    prompts = [[5, 6, 7], [8]]
    ids = torch.tensor([[9, 3, 4, 11, 12, 7], [10, 4, 3, 0, 0, 0]])
    wanted = torch.tensor([[1, 1, 0, 1, 1, 1], [1, 0, 1, 0, 0, 0]], dtype=torch.bool)
    with torch.no_grad():
        head = head_of(model)
        logits = response_hidden(model, prompts, ids, wanted) @ head.weight.T
        logits = logits if head.bias is None else logits + head.bias
        expected = []
        for prompt, row, mask in zip(prompts, ids.tolist(), wanted, strict=True):
            own = model(torch.tensor([prompt + row])).logits[0, len(prompt) - 1 : -1]
            expected.append(own[mask])
    # Bloom's softmax is in float32 whatever the model's dtype, and rounds by the padded width.
    tolerance = 1e-6 if kind == "bloom" else 1e-12
    torch.testing.assert_close(logits, torch.cat(expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", TRANSFORMED)
def test_models_that_change_logits_after_the_head_are_refused_by_name(kind):
    model = random_model(kind, TRANSFORMED[kind])
    with pytest.raises(
        ValueError, match=r"^model\.path must be .*, got \w+ForCausalLM with \w+ = "
    ):
        head_of(model)


def test_micro_batches_hold_each_row_once_within_the_budget():
    lengths = [4, 0, 9, 4, 30, 7, 1]
    for budget in (1, 8, 16, 27, 10_000):
        parts = plan_micro_batches(lengths, budget)
        assert sorted(row for part in parts for row in part) == [0, 2, 3, 4, 5, 6]
        for part in parts:
            padded = max(lengths[row] for row in part) * len(part)
            assert padded <= budget or len(part) == 1


def test_micro_batches_go_by_falling_length_and_then_by_row():
    assert plan_micro_batches([4, 0, 9, 4, 30, 7], 16) == [[4], [2], [5, 0], [3]]
    assert plan_micro_batches([4, 4, 4], 8) == [[0, 1], [2]]
    assert plan_micro_batches([0, 0], 16) == []


def test_rows_end_at_their_last_wanted_token_and_count_nothing_without_one():
    wanted = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)
    assert row_lengths([[5, 6], [5, 6, 7], [5]], wanted) == [5, 0, 5]


def test_nothing_after_the_last_wanted_token_is_read():
    model = policy()
    batch, prompts, _ = mini_batch(model, (1.0, -1.0, 1.0, -1.0))
    wanted = batch.response_mask & (torch.arange(batch.response_mask.shape[1]) < 2)
    other = torch.where(wanted, batch.response_ids, (batch.response_ids + 1) % 23)
    with torch.no_grad():
        first = response_hidden(model, prompts, batch.response_ids, wanted)
        second = response_hidden(model, prompts, other, wanted)
    assert torch.equal(first, second)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_statistics_are_those_of_the_models_logits_whatever_the_budget(temperature):
    model = policy()
    batch, prompts, _ = mini_batch(model, (0.0,) * 4)
    for budget in (1, 13, 1000):
        stats = response_stats(
            model, prompts, batch, temperature=temperature, micro_batch_tokens=budget
        )
        for row, prompt in enumerate(prompts):
            length = int(batch.response_mask[row].sum())
            ids = batch.response_ids[row, :length].tolist()
            with torch.no_grad():
                logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            for t, token in enumerate(ids):
                p = (logits[t] / temperature).softmax(-1)
                onehot = torch.nn.functional.one_hot(torch.tensor(token), len(p))
                expected = (p[token].log(), -(p * p.log()).sum(), (onehot - p).norm())
                found = (stats.log_probs, stats.entropy, stats.logit_grad_norm)
                for value, tensor in zip(expected, found, strict=True):
                    assert tensor[row, t].item() == pytest.approx(value.item(), abs=1e-12)


def test_statistics_are_zero_outside_the_mask_and_carry_no_gradient():
    model = policy()
    batch, _, stats = mini_batch(model, (0.0,) * 4)
    for tensor in (stats.log_probs, stats.entropy, stats.logit_grad_norm):
        assert not tensor.requires_grad
        assert (tensor[~batch.response_mask] == 0).all()


def test_statistics_of_bfloat16_weights_are_float32():
    _, _, stats = mini_batch(policy(dtype=torch.bfloat16), (0.0,) * 4)
    assert stats.log_probs.dtype == stats.entropy.dtype == torch.float32
