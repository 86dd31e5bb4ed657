"""The sampler against transformers' generate: `python benchmarks/sampler.py`.

The first model takes the fused decoder, the second any architecture's way through its own forward.

Both sample 4 prompts x 16 responses from the same random model at temperature 1. The end token's
logit carries a bias, so that response lengths are geometric: a long tail, as in training. Seconds
are process CPU seconds on one thread; the ratio is of seconds per response token, since the two
draw different responses.
"""

import math
import statistics
import time

import torch
import transformers
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from gmts.rollout.sampler import Sampler

EOS = 1
PROMPTS, SAMPLES, LIMIT, REPEATS = 4, 16, 256, 3


CLASSES = {
    "Qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "Qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def random_model(family: str, hidden: int, layers: int, vocabulary: int) -> PreTrainedModel:
    """Return a random model with an untied head."""
    torch.manual_seed(0)
    config_class, model_class = CLASSES[family]
    return model_class(
        config_class(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=hidden * 11 // 4,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=hidden // 4,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
        )
    ).eval()


class EndBias(LogitsProcessor):
    """Adds to the end token's logit, in generate and in the head of our sampler alike."""

    def __init__(self, bias: float) -> None:
        self.bias = bias

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the changed logits."""
        scores[:, EOS] += self.bias
        return scores


def measure(
    family: str, hidden: int, layers: int, vocabulary: int, mean_length: float, repeats: int
) -> tuple[float, float]:
    """Print a line per run and return the median seconds per 1000 tokens: ours, generate's."""
    shape = (family, hidden, layers, vocabulary)
    model, biased = random_model(*shape), random_model(*shape)
    bias = math.log(vocabulary / mean_length)
    head_bias = torch.zeros(vocabulary)
    head_bias[EOS] = bias
    biased.lm_head.bias = torch.nn.Parameter(head_bias)
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(2, vocabulary, (PROMPTS, 64), generator=generator)
    sampler = Sampler(
        biased, eos_ids=[EOS], temperature=1.0, max_response_tokens=LIMIT, batch_size=64
    )
    costs: dict[str, list[float]] = {"gmts": [], "generate": []}
    for repeat in range(repeats):
        start = time.process_time()
        samples = sampler.sample(prompts.tolist(), SAMPLES, torch.Generator().manual_seed(repeat))
        seconds = time.process_time() - start
        tokens = sum(len(sample.token_ids) for sample in samples)
        costs["gmts"].append(1000 * seconds / tokens)
        torch.manual_seed(repeat)
        start = time.process_time()
        whole = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            num_return_sequences=SAMPLES,
            max_new_tokens=LIMIT,
            eos_token_id=EOS,
            pad_token_id=0,
            logits_processor=LogitsProcessorList([EndBias(bias)]),
        )
        other_seconds = time.process_time() - start
        other_tokens = sum(_length(row) for row in whole[:, prompts.shape[1] :].tolist())
        costs["generate"].append(1000 * other_seconds / other_tokens)
        print(
            f"  run {repeat}: gmts {seconds:6.2f} s, {tokens} tokens | "
            f"generate {other_seconds:6.2f} s, {other_tokens} tokens"
        )
    return statistics.median(costs["gmts"]), statistics.median(costs["generate"])


def _length(row: list[int]) -> int:
    return row.index(EOS) + 1 if EOS in row else len(row)


def main() -> None:
    """Measure every model, then print the table."""
    torch.set_num_threads(1)
    rows = []
    for family, *shape, mean_length in (
        ("Qwen2", 256, 8, 4096, 64.0),
        ("Qwen3", 256, 8, 4096, 64.0),
        ("Qwen2", 64, 2, 87, 24.0),
    ):
        hidden, layers, vocabulary = shape
        name = f"{family}, {layers} layers, hidden {hidden}, V {vocabulary}"
        print(name)
        ours, theirs = measure(family, *shape, mean_length, REPEATS)
        rows.append(f"| {name} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, 1 thread, float32")
    print("| model | gmts, s per 1000 tokens | generate, s per 1000 tokens | ratio |")
    print("|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
