"""One forward step at a time over a key-value cache that shares prompts and drops finished rows."""

import inspect
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache, LlamaForCausalLM, Qwen2ForCausalLM

_OWN_CLASSES = ("torch.nn.modules.", "transformers.models.", "transformers.activations")


class Decoder(Protocol):
    """A model with its cache. `B` is the number of rows still in the cache."""

    def prefill(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Read left-padded prompts, ids and bool mask [n, P]; return next-token logits [n, V]."""

    def repeat(self, times: int) -> None:
        """Make every row stand `times` times, one after another."""

    def step(self, ids: Tensor) -> Tensor:
        """Append one token per row, ids [B]; return next-token logits [B, V]."""

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but those at the indices `rows`."""


def make_decoder(model: Any, max_new_tokens: int) -> Decoder:
    """Return the fused decoder where it reproduces the model exactly, else the general one.

    Raises:
        ValueError: If the model's forward takes no cache.
    """
    return FusedDecoder(model, max_new_tokens) if fusable(model) else GeneralDecoder(model)


def fusable(model: Any) -> bool:
    """Return True for plain Qwen2 and Llama models, whose forward FusedDecoder writes out.

    Adapters, quantised projections and hooks make a model take the general way.
    """
    if type(model) not in (Qwen2ForCausalLM, LlamaForCausalLM):
        return False
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.hidden_act == "silu"
        and rope.get("rope_type", "default") == "default"
        and not getattr(config, "use_sliding_window", False)
        and not getattr(config, "mlp_bias", False)
        and all(_untouched(module) for module in model.modules())
    )


def _untouched(module: nn.Module) -> bool:
    """Return True if a module is of a model's own class and its forward has not been changed."""
    own = type(module).__module__.startswith(_OWN_CLASSES)
    changed = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return own and not changed


class GeneralDecoder:
    """Any causal language model of transformers, through its own forward and cache."""

    def __init__(self, model: Any) -> None:
        accepted = inspect.signature(model.forward).parameters
        names = [name for name in ("past_key_values", "cache_params") if name in accepted]
        if not names:
            raise ValueError(
                f"model must take past_key_values or cache_params, got {type(model).__name__}"
            )
        self._model = model
        self._cache = DynamicCache(config=model.config)
        self._fixed: dict[str, Any] = {names[0]: self._cache, "use_cache": True}
        if "logits_to_keep" in accepted:
            self._fixed["logits_to_keep"] = 1
        self._takes_positions = "position_ids" in accepted
        self._masks_steps = names[0] == "past_key_values"
        self._mask = torch.empty(0)
        self._positions = torch.empty(0)

    def prefill(self, ids: Tensor, mask: Tensor) -> Tensor:
        """See `Decoder`."""
        self._mask = mask
        positions = (mask.long().cumsum(1) - 1).clamp_min(0)
        self._positions = positions[:, -1]
        return self._forward(ids, positions)

    def repeat(self, times: int) -> None:
        """See `Decoder`."""
        device = self._mask.device
        self.keep(torch.arange(len(self._mask), device=device).repeat_interleave(times))

    def step(self, ids: Tensor) -> Tensor:
        """See `Decoder`."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(ids), 1)], 1)
        self._positions = self._positions + 1
        return self._forward(ids[:, None], self._positions[:, None])

    def keep(self, rows: Tensor) -> None:
        """See `Decoder`."""
        # Unlike the cache's batch_* methods, this one knows the states of linear attention too.
        self._cache.reorder_cache(rows)
        self._mask = self._mask[rows]
        self._positions = self._positions[rows]

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        placed = {"position_ids": positions} if self._takes_positions else {}
        # A model of states alone reads the mask for the prompt and takes none with single tokens.
        masked = self._masks_steps or ids.shape == self._mask.shape
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask.long() if masked else None,
            **placed,
            **self._fixed,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


class _Layer:
    """Weights of one transformer layer, projections of the same input joined."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.norm1, self.norm2 = layer.input_layernorm, layer.post_attention_layernorm
        self.qkv = torch.cat([projection.weight for projection in projections])
        biases = [projection.bias for projection in projections]
        self.qkv_bias = None if biases[0] is None else torch.cat(biases)
        self.out, self.out_bias = attention.o_proj.weight, attention.o_proj.bias
        self.gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        self.down = mlp.down_proj.weight


class FusedDecoder:
    """Qwen2 and Llama written out: joined projections, a static cache, grouped-query attention.

    The weights are read when it is made, so make one per call of the sampler.
    """

    def __init__(self, model: Any, max_new_tokens: int) -> None:
        config, body = model.config, model.model
        self._layers = [_Layer(layer) for layer in body.layers]
        self._embedding = body.embed_tokens.weight
        self._head, self._head_bias = model.lm_head.weight, model.lm_head.bias
        self._norm = body.norm
        self._rotary = body.rotary_emb
        self._num_heads = config.num_attention_heads
        self._num_kv = config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        self._max_new = max_new_tokens
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._mask = torch.empty(0)
        self._positions = torch.empty(0)
        self._cos = self._sin = torch.empty(0)
        self._length = 0
        self._unpadded = False

    def prefill(self, ids: Tensor, mask: Tensor) -> Tensor:
        """See `Decoder`."""
        rows, width = ids.shape
        device, dtype = ids.device, self._embedding.dtype
        total = width + self._max_new
        self._unpadded = bool(mask.all())
        self._mask = torch.cat([mask, mask.new_ones(rows, self._max_new)], 1)
        positions = (mask.long().cumsum(1) - 1).clamp_min(0)
        self._positions = positions[:, -1]
        cos, sin = self._rotary(
            torch.empty(1, 1, 1, dtype=dtype, device=device),
            torch.arange(total, device=device)[None],
        )
        self._cos, self._sin = cos[0], sin[0]
        shape = (rows, self._num_kv, width, self._head_dim)
        self._keys = [torch.empty(shape, dtype=dtype, device=device) for _ in self._layers]
        self._values = [torch.empty(shape, dtype=dtype, device=device) for _ in self._layers]
        causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        # Padding sees itself: no empty softmax.
        own = torch.eye(width, dtype=torch.bool, device=device)
        attention = (mask[:, None, None, :] & causal) | own
        hidden = functional.embedding(ids, self._embedding)
        hidden = self._forward(hidden, positions, attention)
        self._length = width
        return self._logits(hidden[:, -1])

    def repeat(self, times: int) -> None:
        """See `Decoder`; also makes room in the cache for the new tokens."""
        self._mask = self._mask.repeat_interleave(times, 0)
        self._positions = self._positions.repeat_interleave(times, 0)
        for tensors in (self._keys, self._values):
            for index, old in enumerate(tensors):
                shape = (len(old) * times, self._num_kv, self._mask.shape[1], self._head_dim)
                new = old.new_empty(shape)
                new[:, :, : self._length] = old.repeat_interleave(times, 0)
                tensors[index] = new

    def step(self, ids: Tensor) -> Tensor:
        """See `Decoder`."""
        self._positions = self._positions + 1
        mask = None if self._unpadded else self._mask[:, None, None, : self._length + 1]
        hidden = functional.embedding(ids[:, None], self._embedding)
        hidden = self._forward(hidden, self._positions[:, None], mask)
        self._length += 1
        return self._logits(hidden[:, 0])

    def keep(self, rows: Tensor) -> None:
        """See `Decoder`."""
        self._mask, self._positions = self._mask[rows], self._positions[rows]
        self._keys = [keys[rows] for keys in self._keys]
        self._values = [values[rows] for values in self._values]

    def _forward(self, hidden: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """Run the layers on [B, n, H] after what is cached; mask [B, 1, n, length + n] or None."""
        rows, width, _ = hidden.shape
        start, end = self._length, self._length + width
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        heads, kv = self._num_heads, self._num_kv
        for index, layer in enumerate(self._layers):
            joined = functional.linear(_rms_norm(layer.norm1, hidden), layer.qkv, layer.qkv_bias)
            joined = joined.view(rows, width, heads + 2 * kv, self._head_dim).transpose(1, 2)
            rotated = _rotate(joined[:, : heads + kv], cos, sin)
            keys, values = self._keys[index], self._values[index]
            keys[:, :, start:end] = rotated[:, heads:]
            values[:, :, start:end] = joined[:, heads + kv :]
            mixed = self._attend(rotated[:, :heads], keys[:, :, :end], values[:, :, :end], mask)
            hidden = hidden + functional.linear(mixed, layer.out, layer.out_bias)
            gate, up = functional.linear(_rms_norm(layer.norm2, hidden), layer.gate_up).chunk(2, -1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down)
        return hidden

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        rows, heads, width, dim = queries.shape
        group = heads // self._num_kv
        if width == 1:  # the heads of a group take the place of query positions: no copies of keys
            queries = queries.reshape(rows, self._num_kv, group, dim)
        else:
            keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        if width == 1:
            return mixed.reshape(rows, 1, heads * dim)
        return mixed.transpose(1, 2).reshape(rows, width, heads * dim)

    def _logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(_rms_norm(self._norm, hidden), self._head, self._head_bias)


def _rms_norm(norm: Any, hidden: Tensor) -> Tensor:
    # transformers takes the mean of squares in float32 whatever the dtype; one kernel where same.
    if hidden.dtype == torch.float32:
        return functional.rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)
    normed: Tensor = norm(hidden)
    return normed


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    return states * cos + torch.cat((-states[..., half:], states[..., :half]), -1) * sin
