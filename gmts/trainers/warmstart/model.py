"""A tiny Qwen2 with random weights."""

from typing import Any

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from gmts.trainers.config import WarmstartConfig

_MAX_POSITIONS = 4096
_ROPE_THETA = 10_000.0


def build_model(config: WarmstartConfig, tokenizer: Any, seed: int) -> Any:
    """Return a Qwen2 of the configured size over the tokenizer's vocabulary, its head tied.

    The same seed gives the same weights; the global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                num_key_value_heads=config.num_key_value_heads,
                max_position_embeddings=_MAX_POSITIONS,
                rope_parameters={"rope_type": "default", "rope_theta": _ROPE_THETA},
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    return model
