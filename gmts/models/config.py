"""Parameters of the model (`model:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The policy that training starts from."""

    path: Annotated[
        str | None,
        Doc("Folder of a local Hugging Face causal LM; null: the warm start builds a tiny one."),
    ]
    dtype: Annotated[Literal["float32", "bfloat16"], Doc("Dtype of weights and activations.")]
    template: Annotated[
        Literal["tokenizer", "plain"],
        Doc(
            "tokenizer: the tokenizer's chat template; plain: message contents one after another, "
            "nothing around them. Recorded in every checkpoint."
        ),
    ]
