"""A small tokenizer trained on the task itself, for the model that the warm start builds."""

from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, END = "<pad>", "<eos>"

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
"""Message contents, one per line; the response follows on the next line."""

_ISOLATED = r"[0-9+\-*/=\n{}()\[\]:,;']"
"""Digits, operators and brackets stand alone, so that numbers are read digit by digit."""


def build_tokenizer(texts: Iterable[str], vocabulary_size: int) -> Any:
    """Return a byte-level BPE tokenizer trained on `texts`, with pad and end tokens.

    The same texts give the same tokenizer.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_ISOLATED), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size, special_tokens=[PAD, END], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
