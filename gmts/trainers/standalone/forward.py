"""Hidden states and token statistics of responses, for any causal language model of transformers.

Rows are padded on the right, where causal attention cannot see the padding, and grouped by length
under a token budget: the grouping changes the speed and the memory, not the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gmts.batch import TokenBatch, TokenStats
from gmts.logits import head_stats

Prompts = Sequence[Sequence[int]]

_LOGIT_TRANSFORMS = {
    "final_logit_softcapping": (None,),
    "logit_scale": (None, 1, 1.0),
    "logits_scaling": (None, 1, 1.0),
}
"""Settings of architectures that change logits after the head, and the values that do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The map from hidden states to logits."""

    weight: Float[Tensor, "V H"]
    bias: Float[Tensor, " V"] | None


def head_of(model: Any) -> Head:
    """Return the model's output head.

    Raises:
        ValueError: If the architecture changes the logits after its head.
    """
    for name, harmless in _LOGIT_TRANSFORMS.items():
        value = getattr(model.config, name, None)
        if value not in harmless:
            raise ValueError(
                f"model.path must be a model whose logits are its head's output, got "
                f"{type(model).__name__} with {name} = {value}"
            )
    embeddings = model.get_output_embeddings()
    return Head(weight=embeddings.weight, bias=getattr(embeddings, "bias", None))


@torch.no_grad()
def check_head(model: Any) -> None:
    """Compare logits built from hidden states, padded, with the model's own on two sequences.

    It finds what no list of settings can: other transforms between hidden states and logits, and
    models whose attention looks ahead.

    Raises:
        ValueError: If they differ.
    """
    head = head_of(model)
    device, vocabulary = head.weight.device, len(head.weight)
    ids = (torch.arange(10, device=device).view(2, 5) * 7 + 3) % vocabulary
    prompts = [[5 % vocabulary, 2 % vocabulary], [1]]
    wanted = torch.arange(5, device=device) < torch.tensor([[5], [2]], device=device)
    built = response_hidden(model, prompts, ids, wanted) @ head.weight.T
    built = (built if head.bias is None else built + head.bias).double()
    own = torch.cat(
        [
            model(
                input_ids=torch.tensor([[*prompt, *row[mask].tolist()]], device=device),
                use_cache=False,
            ).logits[0, len(prompt) - 1 : -1]
            for prompt, row, mask in zip(prompts, ids, wanted, strict=True)
        ]
    ).double()
    distance = float((built - own).abs().mean() / own.abs().mean().clamp_min(1e-30))
    tolerance = 1e-3 if torch.finfo(head.weight.dtype).bits >= 32 else 5e-2
    if not distance <= tolerance:
        raise ValueError(
            "model.path must be a causal LM whose logits are its head's output, got "
            f"{type(model).__name__}: they differ by {distance:.2g} of their size"
        )


def plan_micro_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return rows by falling length, in parts whose padded size is at most `budget` tokens.

    A row that is longer than the budget stands alone. Rows of length 0 are left out.
    """
    order = sorted((i for i, n in enumerate(lengths) if n > 0), key=lambda i: (-lengths[i], i))
    parts: list[list[int]] = []
    for row in order:
        if parts and lengths[parts[-1][0]] * (len(parts[-1]) + 1) <= budget:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def response_hidden(
    model: Any, prompts: Prompts, response_ids: Tensor, wanted: Bool[Tensor, "R T"]
) -> Float[Tensor, "N H"]:
    """Return the hidden states that predict the wanted tokens, row by row.

    Args:
        model: A causal language model.
        prompts: One per row.
        response_ids: [R, T].
        wanted: Response tokens; a row is cut after its last one.
    """
    device = response_ids.device
    ends = _last_wanted(wanted)
    starts = torch.tensor([len(prompt) for prompt in prompts])
    width = int((starts + ends).max()) - 1  # the last token predicts nothing that is wanted
    ids = torch.zeros(len(prompts), width, dtype=torch.long, device=device)
    for row, (prompt, end) in enumerate(zip(prompts, ends.tolist(), strict=True)):
        tokens = torch.tensor(list(prompt), device=device)
        ids[row, : len(tokens)] = tokens[:width]
        ids[row, len(tokens) : len(tokens) + end - 1] = response_ids[row, : max(end - 1, 0)]
    hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
    rows, positions = wanted.nonzero(as_tuple=True)
    picked: Tensor = hidden[rows, positions + starts.to(device)[rows] - 1]
    return picked


def _last_wanted(wanted: Tensor) -> Tensor:
    """Return for each row 1 + the position of its last wanted token; 0 if it has none."""
    positions = torch.arange(1, wanted.shape[1] + 1, device=wanted.device)
    return torch.where(wanted, positions, 0).amax(1).cpu()


def row_lengths(prompts: Prompts, wanted: Bool[Tensor, "R T"]) -> list[int]:
    """Return the tokens of each row up to its last wanted one; 0 where nothing is wanted."""
    ends = _last_wanted(wanted).tolist()
    return [len(prompt) + end if end else 0 for prompt, end in zip(prompts, ends, strict=True)]


@torch.no_grad()
def response_stats(
    model: Any, prompts: Prompts, batch: TokenBatch, *, temperature: float, micro_batch_tokens: int
) -> TokenStats:
    """Return the statistics of `model` at every response token, without gradient; 0 elsewhere.

    Args:
        model: The policy or the reference.
        prompts: One per response.
        batch: Ids and mask.
        temperature: Of sampling.
        micro_batch_tokens: Padded tokens per forward pass.

    Raises:
        ValueError: If the architecture changes the logits after its head.
    """
    head = head_of(model)
    mask = batch.response_mask
    dtype = torch.float64 if head.weight.dtype == torch.float64 else torch.float32
    result = torch.zeros(3, *mask.shape, dtype=dtype, device=mask.device)
    for rows in plan_micro_batches(row_lengths(prompts, mask), micro_batch_tokens):
        index = torch.tensor(rows, device=mask.device)
        wanted, ids = mask[index], batch.response_ids[index]
        hidden = response_hidden(model, [prompts[row] for row in rows], ids, wanted)
        stats = head_stats(
            hidden, head.weight, ids[wanted], temperature=temperature, bias=head.bias
        )
        own = torch.stack([stats.log_probs, stats.entropy, stats.logit_grad_norm])
        part = torch.zeros(3, *wanted.shape, dtype=dtype, device=mask.device)
        part[:, wanted] = own
        result[:, index] = part
    log_probs, entropy, norm = result
    return TokenStats(log_probs=log_probs, entropy=entropy, logit_grad_norm=norm)
