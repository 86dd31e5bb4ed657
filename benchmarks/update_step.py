"""The update step against plain ones: `python benchmarks/update_step.py`.

5 groups of 16 responses (2 groups without signal), prompts of 64 to 128 and responses of 8 to 512
tokens with a long tail, gmts at ratio 0.2, one optimizer step on the policy's own samples, so that
r = 1. All methods get the same selected set and weights and must leave the same gradient:

  plain padded   full logits of padded micro-batches of 8 rows, as TRL does
  plain packed   padding removed by position ids, full logits of up to 2,048 tokens, as verl does
  plain sorted   rows by length, padded micro-batches of up to 2,048 tokens, logits of the response
                 tokens alone: hardly any padding, and no dense attention mask as packing needs here
  gmts           what `gmts.trainers.standalone.step.update_step` does, the selection included

Seconds are the best of several runs, process CPU seconds on one thread; memory is the growth of the
peak resident size, gradients allocated beforehand. Every method runs in a process of its own: what
an earlier one has freed would hide the growth.
"""

import copy
import ctypes
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from gmts.batch import TokenBatch, TokenStats
from gmts.objective.config import ObjectiveConfig
from gmts.selection.config import SelectionConfig
from gmts.trainers.config import OptimizerConfig
from gmts.trainers.standalone.forward import plan_micro_batches, response_stats, row_lengths
from gmts.trainers.standalone.step import StepSettings, update_step

GROUPS, SIZE, SILENT, RATIO, TOKENS = 5, 16, 2, 0.2, 2048
REPEATS = 2
SHAPES = {
    "8 layers, hidden 256, V 4,096": (4096, 256, 8, 704, 4, 2),
    "4 layers, hidden 128, V 151,936": (151_936, 128, 4, 384, 2, 1),
}


def model_of(shape: tuple[int, ...]) -> Qwen2ForCausalLM:
    """Return a random Qwen2 with tied embeddings and peaked distributions."""
    vocabulary, hidden, layers, inner, heads, kv = shape
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
        )
    ).eval()
    with torch.no_grad():
        model.model.norm.weight.mul_(8.0 / (0.02 * math.sqrt(hidden)) / 8)
    return model


def batch_of(model: Qwen2ForCausalLM) -> tuple[TokenBatch, list[list[int]]]:
    """Return random responses with the lengths and advantages of a training batch."""
    generator = torch.Generator().manual_seed(0)
    vocabulary, rows = model.config.vocab_size, GROUPS * SIZE
    lengths = (90 * torch.exp(0.7 * torch.randn(rows, generator=generator))).long().clamp(8, 512)
    width = int(lengths.max())
    prompts = []
    for _ in range(GROUPS):
        count = int(torch.randint(64, 129, (1,), generator=generator))
        prompts += [torch.randint(0, vocabulary, (count,), generator=generator).tolist()] * SIZE
    advantages = torch.zeros(GROUPS, SIZE)
    for group in range(SILENT, GROUPS):
        right = torch.rand(SIZE, generator=generator) < 0.5
        right[0], right[1] = True, False
        scores = right.float()
        advantages[group] = (scores - scores.mean()) / (scores.std() + 1e-6)
    return (
        TokenBatch(
            response_ids=torch.randint(0, vocabulary, (rows, width), generator=generator),
            response_mask=torch.arange(width) < lengths[:, None],
            old_log_probs=torch.zeros(rows, width),
            ref_log_probs=None,
            advantages=advantages.flatten(),
            sample_ids=torch.arange(rows),
            group_ids=torch.arange(rows) // SIZE,
        ),
        prompts,
    )


def settings() -> StepSettings:
    """Return DAPO with gmts at ratio 0.2."""
    return StepSettings(
        objective=ObjectiveConfig(
            algorithm="dapo", clip_ratio_low=0.2, clip_ratio_high=0.28, dual_clip=None, beta=0.0,
            normalize_by_std=True, std_ddof=1, denominator="selected", mask_kl=True,
            kl_zero_tolerance=1e-5, overlong_filter=False, rollout_is=None,
            rollout_is_threshold=2.0,
        ),
        selection=SelectionConfig(
            score="gmts", ratio=RATIO, side="top", scope="batch", score_policy="current",
            custom=None,
        ),
        optimizer=OptimizerConfig(
            lr=1e-6, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, warmup_steps=0,
            max_grad_norm=1e12,
        ),
        seed=0, temperature=1.0, max_response_tokens=512, micro_batch_tokens=TOKENS,
        skip_no_signal=True,
    )  # fmt: skip


class Keep(torch.optim.Optimizer):
    """An optimizer that keeps the gradients instead of applying them."""

    def __init__(self, model: Qwen2ForCausalLM) -> None:
        super().__init__(model.parameters(), {"lr": 0.0})
        self.model = model
        self.gradients: dict[str, Tensor] = {}

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Hold on to the tensors themselves, as the plain methods do: a copy would be memory."""
        self.gradients = {n: p.grad for n, p in self.model.named_parameters()}


def selected_weights(batch: TokenBatch, entropy: Tensor) -> Tensor:
    """Return 1/S on the S tokens with the largest |A| E, 0 elsewhere."""
    scores = batch.advantages.abs()[:, None] * entropy
    count = math.ceil(RATIO * int(batch.response_mask.sum()))
    threshold = scores[batch.response_mask].topk(count).values[-1]
    mask = batch.response_mask & (scores >= threshold)
    return mask / mask.sum()


def padded(
    batch: TokenBatch, prompts: list[list[int]], parts: list[list[int]]
) -> Iterator[tuple[Tensor, ...]]:
    """Yield (ids, attention mask, predicting positions and their tokens) of each part."""
    for rows in parts:
        lengths = [int(batch.response_mask[row].sum()) for row in rows]
        width = max(len(prompts[r]) + n for r, n in zip(rows, lengths, strict=True))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        where = []
        for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            sequence = torch.cat([torch.tensor(prompts[row]), batch.response_ids[row, :length]])
            ids[index, : len(sequence)], mask[index, : len(sequence)] = sequence, 1
            where += [(index, len(prompts[row]) - 1 + t, row, t) for t in range(length)]
        yield ids, mask, torch.tensor(where)


def packed(batch: TokenBatch, prompts: list[list[int]]) -> Iterator[tuple[Tensor, ...]]:
    """Yield (ids [1, n], position ids, predicting positions and their tokens)."""
    ids, positions, where, total = [], [], [], 0
    for row, prompt in enumerate(prompts):
        length = int(batch.response_mask[row].sum())
        size = len(prompt) + length
        if total + size > TOKENS and total:
            yield torch.cat(ids)[None], torch.cat(positions)[None], torch.tensor(where)
            ids, positions, where, total = [], [], [], 0
        ids.append(torch.cat([torch.tensor(prompt), batch.response_ids[row, :length]]))
        positions.append(torch.arange(size))
        where += [(0, total + len(prompt) - 1 + t, row, t) for t in range(length)]
        total += size
    yield torch.cat(ids)[None], torch.cat(positions)[None], torch.tensor(where)


def plain_loss(logits: Tensor, where: Tensor, batch: TokenBatch, weights: Tensor) -> Tensor:
    """Return the surrogate of one micro-batch from full logits; r = 1 in value."""
    row, position, response, token = where.unbind(1)
    log_p = torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), -1)
    targets = batch.response_ids[response, token]
    own = log_p[row, position, targets]
    ratio = (own - own.detach()).exp()
    return -(weights[response, token] * ratio * batch.advantages[response]).sum()


def run_padded(
    model: Qwen2ForCausalLM, batch: TokenBatch, prompts: list[list[int]], w: Tensor
) -> None:
    """Backward through padded micro-batches of 8 rows."""
    parts = [list(range(len(prompts)))[first : first + 8] for first in range(0, len(prompts), 8)]
    for ids, mask, where in padded(batch, prompts, parts):
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        plain_loss(logits, where, batch, w).backward()


def run_sorted(
    model: Qwen2ForCausalLM, batch: TokenBatch, prompts: list[list[int]], w: Tensor
) -> None:
    """Backward through micro-batches of rows of like length; logits of response tokens alone."""
    lengths = batch.response_mask.sum(1).tolist()
    totals = [len(prompt) + length for prompt, length in zip(prompts, lengths, strict=True)]
    for ids, _, where in padded(batch, prompts, plan_micro_batches(totals, TOKENS)):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[where[:, 0], where[:, 1]])
        rows = torch.stack(
            [torch.zeros(len(where)).long(), torch.arange(len(where)), *where.unbind(1)[2:]], 1
        )
        plain_loss(logits[None], rows, batch, w).backward()


def run_packed(
    model: Qwen2ForCausalLM, batch: TokenBatch, prompts: list[list[int]], w: Tensor
) -> None:
    """Backward through packed micro-batches."""
    for ids, positions, where in packed(batch, prompts):
        logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits
        plain_loss(logits, where, batch, w).backward()


def measure(
    model: Qwen2ForCausalLM, function: Callable[[], None], repeats: int
) -> tuple[float, float]:
    """Return (best CPU seconds, peak growth in MiB) of a backward pass."""
    seconds, growth = [], 0.0
    for _ in range(repeats):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _status_kib("VmRSS")
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
        growth = max(growth, (_status_kib("VmHWM") - before) / 1024)
    return min(seconds), growth


def _status_kib(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ValueError(f"/proc/self/status must name {name}")


def worst(gradients: dict[str, Tensor], reference: dict[str, Tensor]) -> float:
    """Return the largest relative distance of any parameter's gradient."""
    return max(
        ((gradients[name].double() - value.double()).norm() / value.double().norm()).item()
        for name, value in reference.items()
    )


def prepare(
    shape: tuple[int, ...],
) -> tuple[Qwen2ForCausalLM, TokenBatch, list[list[int]], TokenStats]:
    """Return the model, the batch it has sampled, as it were, and the statistics."""
    model = model_of(shape)
    batch, prompts = batch_of(model)
    stats = response_stats(model, prompts, batch, temperature=1.0, micro_batch_tokens=TOKENS)
    return model, replace(batch, old_log_probs=stats.log_probs), prompts, stats


def run_alone(method: str, shape: tuple[int, ...], repeats: int, file: str) -> None:
    """Measure one method in this process and save (seconds, MiB, response tokens, gradients)."""
    torch.set_num_threads(1)
    model, batch, prompts, stats = prepare(shape)
    weights = selected_weights(batch, stats.entropy)
    tokens = int(batch.response_mask.sum())
    if method == "float64":
        torch.save((0.0, 0.0, tokens, float64_gradients(model, batch, prompts, weights)), file)
        return
    keep = Keep(model)

    def once() -> None:
        if method == "gmts":
            update_step(model, keep, batch, prompts, stats, settings(), step=0, moved=False)
        else:
            PLAIN[method](model, batch, prompts, weights)

    seconds, growth = measure(model, once, repeats)
    plain = {name: p.grad for name, p in model.named_parameters()}
    torch.save((seconds, growth, tokens, keep.gradients or plain), file)


PLAIN = {"plain padded": run_padded, "plain packed": run_packed, "plain sorted": run_sorted}


def compare(name: str, shape: tuple[int, ...], repeats: int) -> None:
    """Print a table for one model."""
    spawn = multiprocessing.get_context("spawn")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for method in ("float64", *PLAIN, "gmts"):
            file = f"{folder}/{method}.pt"
            process = spawn.Process(target=run_alone, args=(method, shape, repeats, file))
            process.start()
            process.join()
            if process.exitcode:
                raise RuntimeError(f"{method} must end with exit code 0, got {process.exitcode}")
            results[method] = torch.load(file)
    _, _, tokens, reference = results.pop("float64")
    print(
        f"\n{name}; {tokens} response tokens; gmts pads its micro-batches by "
        f"{padding(shape):.1%} of the tokens it reads\n"
    )
    print("| method | CPU s | plain packed / it | plain sorted / it | peak extra MiB | distance |")
    print("|---|---|---|---|---|---|")
    packed, tight = results["plain packed"][0], results["plain sorted"][0]
    for method, (seconds, growth, _, gradients) in results.items():
        print(
            f"| {method} | {seconds:.2f} | {packed / seconds:.2f}x | {tight / seconds:.2f}x | "
            f"{growth:.0f} | {worst(gradients, reference):.1e} |"
        )


def padding(shape: tuple[int, ...]) -> float:
    """Return the share of padding in the micro-batches of the whole mini-batch."""
    batch, prompts = batch_of(model_of(shape))
    lengths = row_lengths(prompts, batch.response_mask)
    read = sum(lengths[part[0]] * len(part) for part in plan_micro_batches(lengths, TOKENS))
    return 1 - sum(lengths) / read


def float64_gradients(
    model: Qwen2ForCausalLM, batch: TokenBatch, prompts: list[list[int]], weights: Tensor
) -> dict[str, Tensor]:
    """Return the gradient of the plain padded method in float64, in smaller parts."""
    exact = copy.deepcopy(model).double()
    exact.zero_grad()
    for row in range(len(prompts)):
        if not bool(weights[row].any()):
            continue
        index = torch.tensor([row])
        part = batch.rows(index)
        for ids, mask, where in padded(part, [prompts[row]], [[0]]):
            logits = exact(input_ids=ids, attention_mask=mask, use_cache=False).logits
            plain_loss(logits, where, part, weights[index].double()).backward()
    return {n: p.grad for n, p in exact.named_parameters()}


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, 1 thread, float32")
    for name, shape in SHAPES.items():
        compare(name, shape, REPEATS if shape[0] < 10_000 else 1)


if __name__ == "__main__":
    main()
