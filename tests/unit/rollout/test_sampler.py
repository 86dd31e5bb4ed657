import pytest
import torch

from gmts.rollout.sampler import Sampler
from tests.support.policies import EOS, policy

PROMPTS = [[5, 3, 8], [2], [7, 4]]


@pytest.fixture(scope="module")
def model():
    return policy("qwen2", torch.float32)


def sampler(model, **changes):
    settings = {"eos_ids": [EOS], "temperature": 1.0, "max_response_tokens": 12, "batch_size": 64}
    return Sampler(model, **(settings | changes))


def draw(model, count=4, seed=0, prompts=PROMPTS, **changes):
    return sampler(model, **changes).sample(prompts, count, torch.Generator().manual_seed(seed))


def test_the_same_seed_gives_the_same_responses_and_another_seed_others(model):
    assert draw(model) == draw(model)
    assert draw(model) != draw(model, seed=1)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_a_group_may_be_larger_than_a_batch(model, batch_size):
    samples = draw(model, count=3, batch_size=batch_size)
    assert len(samples) == 9
    assert all(1 <= len(sample.token_ids) <= 12 for sample in samples)
    assert all(len(sample.log_probs) == len(sample.token_ids) for sample in samples)


def test_a_response_ends_with_its_first_end_token_or_at_the_limit(model):
    ends = [EOS, 4]
    samples = draw(model, count=50, eos_ids=ends)
    assert {sample.finished for sample in samples} == {True, False}
    for sample in samples:
        *body, last = sample.token_ids
        assert not set(body) & set(ends)
        assert sample.finished == (last in ends)
        assert sample.finished or len(sample.token_ids) == 12


def test_the_models_present_weights_are_used_and_left_alone():
    changing = policy("qwen2", torch.float32)
    before = draw(changing)
    saved = {name: value.clone() for name, value in changing.state_dict().items()}
    with torch.no_grad():
        changing.model.layers[0].mlp.down_proj.weight.mul_(-3)
    assert draw(changing) != before
    changing.load_state_dict(saved)
    assert draw(changing) == before
    for name, value in changing.state_dict().items():
        assert torch.equal(value, saved[name])


def test_training_mode_is_restored_and_gradients_still_flow():
    training = policy("qwen2", torch.float32).train()
    draw(training)
    assert training.training
    training(torch.tensor([[1, 2]])).logits.sum().backward()
    assert training.lm_head.weight.grad is not None


def test_a_frozen_part_stays_in_evaluation_mode_also_after_an_error():
    training = policy("qwen2", torch.float32).train()
    training.model.layers[0].eval()
    modes = [module.training for module in training.modules()]
    draw(training)
    assert [module.training for module in training.modules()] == modes
    with pytest.raises(IndexError):
        draw(training, prompts=[[10_000]])
    assert [module.training for module in training.modules()] == modes


def test_without_end_tokens_every_response_has_the_full_length(model):
    for sample in draw(model, eos_ids=[]):
        assert len(sample.token_ids) == 12
        assert not sample.finished


def test_a_model_that_has_diverged_is_named_instead_of_sampled():
    broken = policy("llama", torch.float32)
    with torch.no_grad():
        broken.model.embed_tokens.weight[7] = torch.nan
    message = "logits of the model must be numbers, got nan after prompt 2 and 0 response tokens"
    with pytest.raises(FloatingPointError, match=message):
        draw(broken, prompts=[[5, 3], [2], [7, 4]], max_response_tokens=1, batch_size=4)


def test_learned_positions_must_hold_prompt_and_response():
    model = policy("gpt2", torch.float32)
    draw(model, prompts=[[1] * 588], count=1)
    message = "max_response_tokens must be <= 11, got 12: .* 600 positions and prompt 1 takes 589"
    with pytest.raises(ValueError, match=message):
        draw(model, prompts=[[1], [1] * 589], count=1)


def test_zero_samples_are_refused(model):
    with pytest.raises(ValueError, match="num_samples must be >= 1, got 0"):
        draw(model, count=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "temperature must be > 0, got 0.0"),
        ({"max_response_tokens": 0}, "max_response_tokens must be >= 1, got 0"),
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
    ],
)
def test_numbers_out_of_range_are_refused(model, changes, message):
    with pytest.raises(ValueError, match=message):
        sampler(model, **changes)


def test_an_empty_prompt_is_refused_by_number(model):
    with pytest.raises(ValueError, match="prompt 1 must have at least one token"):
        draw(model, prompts=[[1], []])
