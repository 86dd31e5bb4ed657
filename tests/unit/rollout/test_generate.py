import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import save_model
from gmts.models.template import PromptTemplate
from gmts.rollout.generate import ask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = build_tokenizer(["1 + 2 = 3", "what is 4 + 5?"] * 4, 60)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24,
                num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                max_position_embeddings=64, tie_word_embeddings=True,
                eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
                bos_token_id=None,
            )
        )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "last"
    template = PromptTemplate.of(tokenizer, "tokenizer")
    save_model(path, model, tokenizer, template, {})
    return path


def answers(folder, **changes):
    settings = {"num_samples": 3, "temperature": 1.0, "max_response_tokens": 6, "seed": 0}
    return ask(folder, "what is 4 + 5?", **(settings | changes))


def test_the_same_seed_gives_the_same_answers(folder):
    assert len(answers(folder)) == 3
    assert answers(folder) == answers(folder)
    assert answers(folder) != answers(folder, seed=1)


def test_temperature_zero_is_greedy_whatever_the_seed(folder):
    first = answers(folder, temperature=0)
    assert first == answers(folder, temperature=0, seed=1)
    assert len(set(first)) == 1


def test_a_folder_that_is_no_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere"):
        answers(tmp_path / "nowhere")
