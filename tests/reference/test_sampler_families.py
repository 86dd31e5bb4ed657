"""Greedy responses of many architectures against transformers' generate, one row at a time."""

import pytest
import torch
import transformers

from gmts.rollout.decoders import fusable
from gmts.rollout.sampler import Sampler

EOS, VOCABULARY, LIMIT = 1, 23, 20
PROMPTS = [[5, 3, 8], [2], [7, 7, 4, 9, 2, 6, 3, 8, 8], [12, 4]]

_TOKENS = {"vocab_size": VOCABULARY, "eos_token_id": EOS, "pad_token_id": 0, "bos_token_id": 2}
_SIZES = _TOKENS | {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
FAMILIES = {
    "rotary positions on a part of each head": ("Phi", _SIZES),
    "norms of queries and keys": ("Qwen3", _SIZES | {"head_dim": 8}),
    "a sliding window": ("Mistral", _SIZES | {"sliding_window": 5}),
    "alternating windows and capped logits": (
        "Gemma2",
        _SIZES | {"head_dim": 8, "sliding_window": 5},
    ),
    "learned positions": (
        "OPT",
        _TOKENS | {"hidden_size": 16, "num_hidden_layers": 2, "ffn_dim": 24,
        "num_attention_heads": 4, "max_position_embeddings": 64, "word_embed_proj_dim": 16},
    ),
    "convolutions between attention": (
        "Lfm2",
        _SIZES | {"layer_types": ["conv", "full_attention"]},
    ),
    "scaled rotary positions": (
        "Llama",
        _SIZES | {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
    ),
    "states alone": (
        "Mamba",
        _TOKENS | {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    ),
}  # fmt: skip


def _model(name, settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**settings)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0 if parameter.dim() > 1 else 1.0)
    return model.double().eval()


def _generated(model, prompt):
    ids = torch.tensor([prompt])
    whole = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False,
        eos_token_id=EOS, pad_token_id=0,
    )  # fmt: skip
    response = whole[0, len(prompt) :].tolist()
    return response[: response.index(EOS) + 1] if EOS in response else response


def _sampler(model):
    return Sampler(model, eos_ids=[EOS], temperature=1.0, max_response_tokens=LIMIT, batch_size=64)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_architecture_gives_the_responses_of_generate_in_float64(family):
    model = _model(*FAMILIES[family])
    assert not fusable(model)
    ours = _sampler(model).greedy(PROMPTS)
    assert [list(sample.token_ids) for sample in ours] == [_generated(model, p) for p in PROMPTS]


@pytest.mark.parametrize("family", FAMILIES)
def test_any_architecture_keeps_its_states_apart_when_rows_are_repeated_and_dropped(family):
    model = _model(*FAMILIES[family])
    samples = _sampler(model).sample(PROMPTS, 6, torch.Generator().manual_seed(3))
    assert {sample.finished for sample in samples} == {True, False}  # some rows leave early
    for row, sample in enumerate(samples):
        prompt = PROMPTS[row // 6]
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *sample.token_ids]]), use_cache=False).logits[0]
        plain = logits[len(prompt) - 1 : -1].double().log_softmax(-1)
        own = plain.gather(1, torch.tensor(sample.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(
            torch.tensor(sample.log_probs, dtype=torch.float64), own, rtol=0, atol=1e-5
        )
