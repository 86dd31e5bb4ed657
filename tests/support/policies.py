"""Tiny random policies and mini-batches for them."""

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from gmts.batch import TokenBatch
from gmts.trainers.config import OptimizerConfig
from gmts.trainers.standalone.forward import response_stats
from gmts.trainers.standalone.step import StepSettings
from tests.support.core import objective, selection

VOCABULARY = 23
EOS = 1


def policy(kind="qwen2", dtype=torch.float64, seed=0, vocabulary=VOCABULARY):
    """Return a random model whose distributions are far from uniform."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _KINDS[kind](vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4.0 if parameter.dim() > 1 else 1.0)
    return model.to(dtype).eval()


def _qwen2(vocabulary):
    return Qwen2ForCausalLM(
        Qwen2Config(vocab_size=vocabulary, eos_token_id=EOS, tie_word_embeddings=True, **_SIZES)
    )


def _llama(vocabulary):
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=vocabulary, eos_token_id=EOS, tie_word_embeddings=False, **_SIZES)
    )


def _gpt2(vocabulary):
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary, eos_token_id=EOS, n_embd=16, n_layer=2, n_head=2, n_positions=600
        )
    )


_SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 600,
}
_KINDS = {"qwen2": _qwen2, "llama": _llama, "gpt2": _gpt2}


def mini_batch(
    model, advantages, *, lengths=(5, 3, 1, 6), old_shift=0.0, ref=None, rollout=None, seed=0
):
    """Return (batch, prompts, stats of `model`); old log-probs lie `old_shift` * noise away.

    Reference log-probs lie `ref` * noise from the model's, rollout ones `rollout` * noise from the
    old ones; None leaves them out.
    """
    generator = torch.Generator().manual_seed(seed)
    rows, width = len(lengths), max(lengths)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    prompts = [
        torch.randint(2, VOCABULARY, (2 + row % 3,), generator=generator).tolist()
        for row in range(rows)
    ]
    batch = TokenBatch(
        response_ids=torch.randint(2, VOCABULARY, (rows, width), generator=generator),
        response_mask=mask,
        old_log_probs=torch.zeros(rows, width, dtype=torch.float64),
        ref_log_probs=None,
        advantages=torch.tensor(advantages, dtype=torch.float64),
        sample_ids=torch.arange(rows) * 7 + 3,
        group_ids=torch.arange(rows) // 2,
    )
    stats = response_stats(model, prompts, batch, temperature=1.0, micro_batch_tokens=1000)
    noise = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    changed = {"old_log_probs": stats.log_probs.double() + old_shift * noise}
    if ref is not None:
        more = torch.randn(rows, width, generator=generator, dtype=torch.float64)
        changed["ref_log_probs"] = stats.log_probs.double() + ref * more
    if rollout is not None:
        gaps = torch.randn(rows, width, generator=generator, dtype=torch.float64)
        changed["rollout_log_probs"] = changed["old_log_probs"] - rollout * gaps
    values = {name: getattr(batch, name) for name in TokenBatch.__dataclass_fields__}
    return TokenBatch(**(values | changed)), prompts, stats


def step_settings(*, micro_batch_tokens=1000, skip_no_signal=True, lr=1.0, custom=None, **changes):
    """Return settings; `changes` go to the objective or the selection by name."""
    choose = {k: v for k, v in changes.items() if k in selection().__dataclass_fields__}
    aim = {k: v for k, v in changes.items() if k not in choose}
    return StepSettings(
        objective=objective(**aim),
        selection=selection(**choose),
        optimizer=OptimizerConfig(
            lr=lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, warmup_steps=0,
            max_grad_norm=1e9,
        ),
        seed=11,
        temperature=1.0,
        max_response_tokens=8,
        micro_batch_tokens=micro_batch_tokens,
        skip_no_signal=skip_no_signal,
        custom_score=custom,
    )  # fmt: skip
