import json

import pytest
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from gmts.models.shape import ModelShape

SIZES = {
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("config", "model"), [(Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)]
)
def test_parameters_are_those_of_the_real_model_biases_and_head_norms_aside(
    tmp_path, config, model, tied
):
    built = model(config(**SIZES, head_dim=24, tie_word_embeddings=tied))
    built.config.save_pretrained(tmp_path)
    named = dict(built.named_parameters())
    small = {k for k in named if k.endswith(".bias") or "q_norm" in k or "k_norm" in k}
    expected = sum(p.numel() for name, p in named.items() if name not in small)
    shape = ModelShape.read(tmp_path)
    assert shape.num_params == expected
    assert (shape.tied, shape.max_positions) == (tied, 128)


def test_the_published_sizes_of_qwen3_8b_give_8_2_billion_parameters(tmp_path):
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=False,
    )
    config.save_pretrained(tmp_path)
    shape = ModelShape.read(tmp_path)
    assert round(shape.num_params / 1e9, 2) == 8.19
    assert shape.kv_values == 73728  # 2 x 36 layers x 8 heads x 128


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "config.json must exist"),
        ({"hidden_size": 8}, "must hold num_attention_heads, got none"),
        (SIZES | {"vocab_size": None}, "must hold sizes as whole numbers"),
        (SIZES | {"num_experts": 8}, "must be that of a dense model"),
    ],
)
def test_a_config_without_sizes_is_refused(tmp_path, config, message):
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        ModelShape.read(tmp_path)
