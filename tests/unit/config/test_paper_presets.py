"""The presets of the paper's runs say what the paper says: the table of its settings, by hand."""

import itertools

import pytest

from gmts.config import parse_params
from gmts.config.load import parse_yaml
from gmts.config.presets import render_preset

BOXED = r"Please reason step by step, and put your final answer within \boxed{}."
QWEN = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
# set, prompt and response tokens, questions per batch and mini-batch, learning rate
SETTINGS = {
    "qwen2.5-math-1.5b": ("math12k", 1024, 2048, 64, 64, 3e-5),
    "qwen2.5-math-7b": ("math12k", 1024, 2048, 64, 64, 3e-5),
    "qwen3-8b": ("dapo17k", 1024, 4096, 512, 32, 1e-6),
    "qwen2.5-coder-1.5b": ("kodcode", 2048, 32768, 512, 32, 1e-6),
    "qwen2.5-coder-7b": ("kodcode", 2048, 32768, 512, 32, 1e-6),
    "qwen2.5-1.5b": ("csqa", 1024, 4096, 512, 32, 1e-6),
    "qwen2.5-7b": ("csqa", 1024, 4096, 512, 32, 1e-6),
}
# algorithm, beta, dynamic sampling
OBJECTIVES = {"grpo": ("grpo", 0.001, False), "dapo": ("dapo", 0.0, True)}
SCORES = {"gmts": "gmts", "ets": "ets", "plain": "none"}


def preset(repository, name):
    return parse_params(parse_yaml(render_preset(repository, name)))


@pytest.mark.parametrize("model", SETTINGS)
def test_a_model_has_the_papers_lengths_batches_and_rate(repository, model):
    params = preset(repository, model)
    train = params.train
    assert (
        params.data.set,
        params.data.max_prompt_tokens,
        params.rollout.max_response_tokens,
        train.questions_per_batch,
        train.questions_per_mini_batch,
        train.optimizer.lr,
    ) == SETTINGS[model]
    assert (params.seed, params.rollout.group_size, params.rollout.temperature) == (0, 16, 1.0)
    assert (train.optimizer.warmup_steps, train.backend) == (0, "verl")
    assert params.verl.nodes * params.verl.ranks_per_node == 8
    assert params.evaluate.max_response_tokens == params.rollout.max_response_tokens
    assert (params.evaluate.samples, params.evaluate.temperature) == (16, 1.0)
    assert params.data.system_prompt == (QWEN if "coder" in model else BOXED)


def test_the_math_models_alone_keep_bfloat16_weights_under_adamw(repository):
    dtypes = {model: preset(repository, model).verl.weights_dtype for model in SETTINGS}
    assert {model for model, dtype in dtypes.items() if dtype == "bfloat16"} == {
        "qwen2.5-math-1.5b",
        "qwen2.5-math-7b",
    }


@pytest.mark.parametrize(("objective", "score"), list(itertools.product(OBJECTIVES, SCORES)))
def test_an_objective_and_a_selection_combine_with_a_model(repository, objective, score):
    params = preset(repository, f"qwen3-8b+{objective}+{score}")
    assert (
        params.objective.algorithm,
        params.objective.beta,
        params.train.dynamic_sampling.enabled,
    ) == OBJECTIVES[objective]
    assert (params.objective.clip_ratio_low, params.objective.clip_ratio_high) == (0.2, 0.28)
    assert params.objective.dual_clip is None
    assert params.selection.score == SCORES[score]
    assert (params.selection.ratio, params.selection.side) == (0.2, "top")
    assert params.name == f"qwen3-8b-{objective}-{score}"


def test_a_model_alone_is_dapo_with_gmts(repository):
    params = preset(repository, "qwen2.5-7b")
    assert (params.objective.algorithm, params.selection.score) == ("dapo", "gmts")


def test_the_released_rule_combines_with_a_model(repository):
    params = preset(repository, "qwen2.5-math-7b+released")
    assert (params.selection.scope, params.objective.denominator) == ("group", "all")
    assert (params.objective.mask_kl, params.train.questions_per_batch) == (False, 64)
