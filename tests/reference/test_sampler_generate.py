"""Greedy responses against transformers' own generate; log-probs against a plain forward pass."""

import pytest
import torch

from gmts.rollout.decoders import FusedDecoder, GeneralDecoder, fusable
from gmts.rollout.sampler import Sampler
from tests.support.policies import EOS, VOCABULARY, policy

PROMPTS = [[5, 3, 8], [2], [7, 7, 4, 9, 2, 6, 3], [12, 4], [3, 3, 3, 3]]
LIMIT = 24


def sampler(model, **changes):
    settings = {
        "eos_ids": [EOS],
        "temperature": 1.0,
        "max_response_tokens": LIMIT,
        "batch_size": 64,
    }
    return Sampler(model, **(settings | changes))


def generated(model, prompt):
    ids = torch.tensor([prompt])
    whole = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False,
        eos_token_id=EOS, pad_token_id=0,
    )  # fmt: skip
    response = whole[0, len(prompt) :].tolist()
    return response[: response.index(EOS) + 1] if EOS in response else response


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_greedy_responses_equal_generates_in_float64(kind, batch_size):
    for seed in range(2):
        model = policy(kind, seed=seed)
        ours = sampler(model, batch_size=batch_size).greedy(PROMPTS)
        for prompt, sample in zip(PROMPTS, ours, strict=True):
            assert list(sample.token_ids) == generated(model, prompt)
            assert sample.finished == (sample.token_ids[-1] == EOS)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_in_float32_greedy_responses_part_only_where_the_two_best_logits_are_close(kind):
    for seed in range(3):
        model = policy(kind, torch.float32, seed=seed)
        for prompt, sample in zip(PROMPTS, sampler(model).greedy(PROMPTS), strict=True):
            theirs = generated(model, prompt)
            for place, (own, other) in enumerate(zip(sample.token_ids, theirs, strict=False)):
                if own != other:
                    best = logits_of(model, prompt + theirs[:place])[-1].topk(2).values
                    assert best[0] - best[1] < 1e-4
                    break
            else:
                assert len(sample.token_ids) == len(theirs)


def test_both_decoders_give_the_same_logits_with_padding_repeats_and_dropped_rows():
    model = policy("qwen2")
    assert fusable(model)
    ids = torch.tensor([[0, 0, 5], [2, 4, 6]])
    mask = torch.tensor([[False, False, True], [True, True, True]])
    decoders = (FusedDecoder(model, 4), GeneralDecoder(model))
    with torch.no_grad():
        runs = []
        for decoder in decoders:
            logits = [decoder.prefill(ids, mask)]
            decoder.repeat(3)
            logits.append(decoder.step(torch.tensor([4, 5, 6, 7, 8, 9])))
            decoder.keep(torch.tensor([0, 2, 5]))
            logits.append(decoder.step(torch.tensor([3, 2, 1])))
            runs.append(logits)
    for fused, general in zip(*runs, strict=True):
        torch.testing.assert_close(fused, general, rtol=1e-6, atol=1e-6)
    assert runs[0][2].shape == (3, VOCABULARY)


class Adapted(torch.nn.Linear):
    """A projection that does more than its weight says, as an adapter's does."""

    def forward(self, states):
        return 3.0 * super().forward(states)


def change_class(model):
    model.model.layers[1].self_attn.v_proj.__class__ = Adapted


def hook(model):
    model.model.layers[1].self_attn.v_proj.register_forward_hook(lambda *given: 3.0 * given[-1])


def replace_forward(model):
    projection = model.model.layers[1].self_attn.v_proj
    projection.forward = lambda states: 3.0 * torch.nn.Linear.forward(projection, states)


@pytest.mark.parametrize("change", [change_class, hook, replace_forward])
def test_a_changed_projection_is_sampled_as_changed(change):
    model = policy("qwen2")
    plain = sampler(model).greedy(PROMPTS)
    change(model)
    assert not fusable(model)
    changed = sampler(model).greedy(PROMPTS)
    assert changed != plain
    for prompt, sample in zip(PROMPTS, changed, strict=True):
        assert list(sample.token_ids) == generated(model, prompt)


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_log_probs_are_those_of_a_plain_forward_pass(kind, temperature):
    model = policy(kind, torch.float32)
    samples = sampler(
        model, eos_ids=[VOCABULARY + 1], temperature=temperature, max_response_tokens=500
    ).sample(PROMPTS[:2], 2, torch.Generator().manual_seed(1))
    for row, sample in enumerate(samples):
        prompt = PROMPTS[row // 2]
        logits = logits_of(model, prompt + list(sample.token_ids))[len(prompt) - 1 : -1]
        plain = (logits.double() / temperature).log_softmax(-1)
        own = plain.gather(1, torch.tensor(sample.token_ids)[:, None])[:, 0]
        assert len(sample.token_ids) == 500
        assert (own - torch.tensor(sample.log_probs).double()).abs().max() < 1e-4


def test_samples_follow_the_models_probabilities():
    model = policy("qwen2", torch.float32)
    one = sampler(model, max_response_tokens=1, temperature=0.8, batch_size=4096)
    samples = one.sample([PROMPTS[0]], 20_000, torch.Generator().manual_seed(0))
    counts = torch.zeros(VOCABULARY)
    for sample in samples:
        counts[sample.token_ids[0]] += 1
    p = (logits_of(model, PROMPTS[0])[-1].double() / 0.8).softmax(-1)
    deviation = (counts.double() - 20_000 * p).abs() / (20_000 * p * (1 - p)).sqrt().clamp_min(1)
    assert deviation.max() < 4.5
