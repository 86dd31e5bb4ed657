r"""Multiple choice and yes/no: which option a response states.

Looked at is the response after the thinking part: the last box if there is one, else the last
statement that names an option, else a response that is nothing but an option. An option is named
by its letter, by its letter with its own text, or by its exact text.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gmts.rewards.extract import after_thinking, last_boxed, statements
from gmts.rewards.verdict import SHOWN_CHARS, RewardError, Verdict, binary

_WRAPPER = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mbox|bf|rm)\s*\{([^{}]*)\}")
_MARKS = re.compile(r"[*$`\"“”]|\\[(),;!]|(?<!\w)_+|_+(?!\w)")
_SPACE = re.compile(r"\s+")
_LETTER = re.compile(
    r"(?:(?:option|choice)\s+)?[(\[]?(?P<letter>[A-Za-z])(?P<close>[)\]]?)(?![\w'’])", re.IGNORECASE
)
_JOINED = r"\s*(?:,|/|&|\(|\bor\b|\band\b)+\s*(?:\b(?:maybe|perhaps|possibly|also|either)\b\s*)*"
_ANOTHER_LETTER = re.compile(
    rf"(?:{_JOINED}(?:(?:option|choice)\s+)?[(\[]?|\s+)(?P<letter>[A-Z])\b(?!['’])"
)
_YES_NO = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_YES_NO_WORD = re.compile(r"(?P<word>yes|no|true|false)\b", re.IGNORECASE)
_ANOTHER_WORD = re.compile(r"\s*(?:/|&|\bor\b|\band\b)+\s*(?:yes|no|true|false)\b", re.IGNORECASE)
_MANY = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What may be chosen."""

    texts: Mapping[str, str]
    """Label -> normalised text; empty for yes/no and where texts are not known."""
    yes_no: bool

    def named(self, text: str, *, whole: bool) -> str | None:
        """Return the label that `text` names, `_MANY` if it contradicts itself, None if none.

        Args:
            text: Starts with the option.
            whole: Nothing may follow the option; else an explanation may.
        """
        plain = _plain(text)
        if self.yes_no:
            return _yes_no(plain, whole)
        return self._by_letter(plain, whole) or self._by_text(plain, whole)

    def _by_letter(self, plain: str, whole: bool) -> str | None:
        match = _LETTER.match(plain)
        if match is None:
            return None
        label = match.group("letter").upper()
        rest = plain[match.end() :]
        if self.texts and label not in self.texts:
            return None
        # "a bank" begins with an article.
        if match.group("letter").islower() and not match.group("close") and rest[:1] == " ":
            return None
        another = _ANOTHER_LETTER.match(rest)
        if another is not None and another.group("letter") in set(self.texts or "ABCDE") - {label}:
            return _MANY
        rest = rest.strip(" .,:;()-–—")
        named = self._by_text(rest, whole)
        if named is not None and named != label:
            return _MANY
        return label if named == label or not whole or not rest else None

    def _by_text(self, plain: str, whole: bool) -> str | None:
        text = plain.casefold().rstrip(".!")
        if whole:
            labels = [label for label, own in self.texts.items() if own == text]
        else:
            begun = {k: own for k, own in self.texts.items() if _begins(text, own)}
            longest = max(map(len, begun.values()), default=0)
            labels = [label for label, own in begun.items() if len(own) == longest]
            if len(labels) == 1 and self._another_text(text[longest:]):
                return _MANY
        return labels[0] if len(labels) == 1 else None

    def _another_text(self, rest: str) -> bool:
        joined = re.match(_JOINED, rest)
        return joined is not None and any(
            _begins(rest[joined.end() :], own) for own in self.texts.values()
        )


def judge_choice(response: str, ground_truth: str, meta: Mapping[str, Any]) -> Verdict:
    """Judge a choice.

    Args:
        response: The whole response.
        ground_truth: A label of the options, or yes, no, true or false.
        meta: `choices`: label -> text; absent or null where there are none.

    Raises:
        RewardError: If the ground truth is missing or is not one of the options.
    """
    start = time.perf_counter()
    gold, options = _gold(ground_truth, meta)
    stated, named = _find(after_thinking(response), options)
    reason = "right" if named == gold else "wrong"
    if named is None:
        reason = "no answer" if stated is None else "not an option"
    elif named == _MANY:
        reason = "several options"
    stated = None if stated is None else stated[:SHOWN_CHARS]
    return binary(named == gold, reason, stated, time.perf_counter() - start)


def _gold(ground_truth: str, meta: Mapping[str, Any]) -> tuple[str, _Options]:
    gold = ground_truth.strip()
    choices = meta.get("choices") or {}
    if not isinstance(choices, Mapping):
        raise RewardError(f"choices must map labels to texts, got {choices!r:.80}")
    texts = {str(label).upper(): _plain(str(text)).casefold() for label, text in choices.items()}
    if not texts and gold.casefold() in _YES_NO:
        return _YES_NO[gold.casefold()], _Options(texts={}, yes_no=True)
    label = gold.strip("()").upper()
    if label not in texts and (texts or not re.fullmatch("[A-Z]", label)):
        rule = ", ".join(texts) or "a letter, yes, no, true or false"
        raise RewardError(f"the ground truth must be one of {rule}, got {ground_truth!r:.80}")
    return label, _Options(texts=texts, yes_no=False)


def _find(text: str, options: _Options) -> tuple[str | None, str | None]:
    """Return what was stated, and the label it names."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed, options.named(boxed, whole=True)
    for stated in reversed(statements(text)):
        if (named := options.named(stated, whole=False)) is not None:
            return stated, named
    named = options.named(text, whole=True)
    return (None, None) if named is None else (text.strip(), named)


def _yes_no(plain: str, whole: bool) -> str | None:
    match = _YES_NO_WORD.match(plain)
    if match is None:
        return None
    rest = plain[match.end() :]
    if _ANOTHER_WORD.match(rest):
        return _MANY
    return None if whole and rest.strip(" .!") else _YES_NO[match.group("word").casefold()]


def _plain(text: str) -> str:
    """Drop wrappers and marks, and make every space one."""
    while (unwrapped := _WRAPPER.sub(r"\1", text)) != text:
        text = unwrapped
    text = _SPACE.sub(" ", _MARKS.sub("", text)).strip(" :")
    return text.rstrip(" ,;") if text.endswith((",", ";")) else text


def _begins(text: str, own: str) -> bool:
    return bool(own) and text.startswith(own) and not text[len(own) : len(own) + 1].isalnum()
