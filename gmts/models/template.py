"""From messages to prompt tokens, the same way in training, rollouts and evaluation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from gmts.files import text_sha256

TemplateKind = Literal["tokenizer", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate:
    """How a list of messages becomes the tokens that a response continues."""

    tokenizer: Any
    kind: TemplateKind
    sha256: str
    """Hash of the kind, the template's text, the special tokens and whether BOS comes first."""

    @classmethod
    def of(cls, tokenizer: Any, kind: TemplateKind) -> Self:
        """Return the template of `tokenizer`.

        Raises:
            ValueError: If `kind` is tokenizer and the tokenizer has no chat template.
        """
        template = _chat_template(tokenizer)
        if kind == "tokenizer" and template is None:
            raise ValueError(
                "model.template must be plain for a tokenizer without a chat template, got "
                f"tokenizer: {getattr(tokenizer, 'name_or_path', '') or 'the tokenizer'} has none; "
                "set model.template: plain (message contents one after another), or add a "
                "chat_template to the model folder"
            )
        identity = {
            "kind": kind,
            "template": template if kind == "tokenizer" else "plain",
            # Not special_tokens_map: loading a saved tokenizer may add names to it.
            "special_tokens": {"bos": tokenizer.bos_token, "eos": tokenizer.eos_token},
            "adds_bos": _added_bos(tokenizer) is not None,
        }
        return cls(
            tokenizer=tokenizer,
            kind=kind,
            sha256=text_sha256(json.dumps(identity, sort_keys=True, ensure_ascii=False)),
        )

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the prompt as text, the assistant's turn opened."""
        if self.kind == "plain":
            return "".join(message["content"] for message in messages)
        text: str = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages], add_generation_prompt=True, tokenize=False
        )
        return text

    def encode(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the prompt's token ids, see `encode_text`."""
        return self.encode_text(self.render(messages))

    def encode_text(self, text: str) -> list[int]:
        """Return a rendered prompt's token ids, with exactly one BOS where the tokenizer adds one.

        A chat template that writes BOS itself and a tokenizer that adds it would make two.
        """
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        bos = _added_bos(self.tokenizer)
        if bos is not None and ids[:1] != [bos]:
            return [bos, *ids]
        return ids


def _chat_template(tokenizer: Any) -> str | None:
    """Return the template that apply_chat_template uses, of several the one named default."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("default")
    return template if isinstance(template, str) else None


def _added_bos(tokenizer: Any) -> int | None:
    """Return the BOS id if the tokenizer puts it before plain text by itself, else None."""
    bos: int | None = tokenizer.bos_token_id
    if bos is None:
        return None
    ids = tokenizer("a")["input_ids"]
    return bos if ids[:1] == [bos] else None
