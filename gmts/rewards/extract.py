r"""Finding the answer in a response: after the thinking part, in a box or in a statement."""

import re
from collections.abc import Callable

_THINKING = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_STATEMENT = re.compile(
    r"\b(?:answer|(?:correct|right|best)\s+(?:option|choice))\b[*_\s]*(?::|：|\bis\b\s*:?|=)"
    r"(?![*_\s]*not\b)[*_\s]*(?P<text>\S[^\n]*)",
    re.IGNORECASE,
)
# A sentence ends at a full stop before a word; one inside a number or a formula does not count.
_SENTENCE_END = re.compile(r"[.;?](?=\s+[A-Za-z])")
_BOLD = "*_ \t"


def after_thinking(response: str) -> str:
    """Return what follows the thinking part; empty if thinking never ended.

    The opening tag may stand in the prompt, so a closing tag alone ends thinking too.
    """
    tags = list(_THINKING.finditer(response))
    if not tags:
        return response
    last = tags[-1]
    return response[last.end() :] if last.group(1) else ""


def last_boxed(response: str) -> str | None:
    r"""Return the contents of the last balanced \boxed{...} or \fbox{...} that is not empty.

    Boxes are balanced by braces that are not escaped. An unclosed box is none; of nested boxes the
    innermost counts. One pass, whatever the text. None if there is no such box.
    """
    open_braces: list[int | None] = []  # where a box's contents start; None: another brace
    found = None
    innermost = -1
    for token in _BRACES.finditer(response):
        text = token.group()
        if text == "}":
            start = open_braces.pop() if open_braces else None
            if start is not None and start > innermost:
                content = response[start : token.start()].strip()
                if content:
                    found, innermost = content, start
        elif text.endswith("{") and text != r"\{":
            open_braces.append(token.end() if len(text) > 1 else None)
    return found


def statements(response: str) -> list[str]:
    """Return the lines' ends X of every "answer: X" and "answer is X", bold marks dropped.

    "Final", "correct" and the like may stand before; "answer is not X" states nothing.
    """
    found = (match.group("text").strip(_BOLD) for match in _STATEMENT.finditer(response))
    return [text for text in found if text]


def last_statement(response: str) -> str | None:
    """Return X of the last "Final answer: X", "Answer: X" or "answer is X", stripped, or None.

    X ends with its line or sentence.
    """
    found = statements(response)
    if not found:
        return None
    text = found[-1]
    end = next((m for m in _SENTENCE_END.finditer(text) if _closed(text[: m.start()])), None)
    text = text if end is None else text[: end.start()]
    return text.strip(_BOLD).rstrip(".").strip(_BOLD) or None


def first_line(response: str) -> str | None:
    """Return the first line, stripped; None if it is empty."""
    return response.partition("\n")[0].strip() or None


def _closed(text: str) -> bool:
    """Whether no formula is open at the end of `text`."""
    return text.replace(r"\$", "").count("$") % 2 == 0 and text.count("{") == text.count("}")


EXTRACTORS: dict[str, Callable[[str], str | None]] = {
    "boxed": last_boxed,
    "first_line": first_line,
}
"""By the values of rewards.answer."""
