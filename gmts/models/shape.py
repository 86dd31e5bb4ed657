"""The sizes of a model, read from its config.json; no engine is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gmts.files import read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder with gated MLPs and grouped-query attention (Qwen, Llama, Mistral, ...)."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    tied: bool
    """The head is the embedding."""
    max_positions: int | None
    """Longest sequence; None: config.json does not say."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the sizes in `folder`/config.json.

        Raises:
            ValueError: If it is missing or broken, lacks a size, or is a mixture of experts'.
        """
        file = folder / "config.json"
        if not file.is_file():
            raise ValueError(f"{file} must exist: it has the model's sizes")
        config: dict[str, Any] = read_json(file)
        if any(config.get(key) for key in ("num_experts", "num_local_experts", "n_routed_experts")):
            raise ValueError(f"{file} must be that of a dense model, got a mixture of experts")
        try:
            heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
            return cls(
                vocab_size=int(config["vocab_size"]),
                hidden_size=hidden,
                intermediate_size=int(config["intermediate_size"]),
                num_layers=int(config["num_hidden_layers"]),
                num_heads=heads,
                num_kv_heads=int(config.get("num_key_value_heads") or heads),
                head_dim=int(config.get("head_dim") or hidden // heads),
                tied=bool(config.get("tie_word_embeddings", False)),
                max_positions=config.get("max_position_embeddings"),
            )
        except KeyError as error:
            raise ValueError(f"{file} must hold {error.args[0]}, got none") from error
        except TypeError as error:
            raise ValueError(f"{file} must hold sizes as whole numbers: {error}") from error

    @property
    def layer_params(self) -> int:
        """Parameters of one layer; biases, a thousandth, are left out."""
        attention = self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return self.hidden_size * (attention + 3 * self.intermediate_size + 2)

    @property
    def embedding_params(self) -> int:
        """Parameters of the embedding and, where it is not the same, the head."""
        return self.vocab_size * self.hidden_size * (1 if self.tied else 2)

    @property
    def num_params(self) -> int:
        """Parameters of the whole model."""
        return self.num_layers * self.layer_params + self.embedding_params + self.hidden_size

    @property
    def kv_values(self) -> int:
        """Numbers that the KV cache holds per token."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim

    @property
    def layer_values(self) -> int:
        """Activations of one layer per token, as its backward pass needs them."""
        attention = self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return 4 * self.hidden_size + attention + 3 * self.intermediate_size
