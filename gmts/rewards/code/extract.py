"""Finding the program in a response."""

import re
import textwrap

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
NO_PROGRAM = "no closed block of Python code after the thinking part"
"""Reason of a verdict on a response without a program."""
_PYTHON = frozenset({"python", "py", "python3", "py3"})


def after_thinking(response: str) -> str | None:
    """Return what follows the last </think>; None if thinking was begun and never ended."""
    before, found, rest = response.rpartition("</think>")
    if found:
        return rest
    return None if "<think>" in before + rest else response


def last_program(response: str) -> str | None:
    """Return the last fenced Python block after the thinking part; None if there is none.

    Blocks marked python, py, python3 or py3 count; without any, the last block without a mark. A
    block whose fence is never closed was cut off and is none.
    """
    answer = after_thinking(response)
    blocks = [] if answer is None else _blocks(answer)
    marked = [code for language, code in blocks if language in _PYTHON]
    unmarked = [code for language, code in blocks if not language]
    return next((codes[-1] for codes in (marked, unmarked) if codes), None)


def _blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of every closed fenced block; a fence is closed by one as long or longer."""
    found = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _FENCE.match(line)
        if opening is None:
            opening, lines = match, []
        elif match and _closes(opening, match):
            info = opening["info"].strip().lower()
            language = re.split(r"[\s{,:]", info, maxsplit=1)[0]
            found.append((language, textwrap.dedent("\n".join(lines)) + "\n"))
            opening = None
        else:
            lines.append(line)
    return found


def _closes(opening: re.Match[str], match: re.Match[str]) -> bool:
    fence = opening["fence"]
    return not match["info"].strip() and match["fence"].startswith(fence)
