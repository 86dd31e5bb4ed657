"""Taking normalised text apart where no bracket is open."""

import re
from collections.abc import Iterator

_PART = re.compile(r"\\\\|\\begin(?![A-Za-z])|\\end(?![A-Za-z])|\\[A-Za-z]+|\\.|.", re.DOTALL)
_OPEN = frozenset(("(", "[", "{", r"\{", r"\langle", r"\lfloor", r"\lceil", r"\begin"))
_CLOSE = frozenset((")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil", r"\end"))


def parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (part, depth, place); a bracket has the depth outside it. Commands are one part."""
    depth = 0
    for match in _PART.finditer(text):
        part = match.group()
        if part in _CLOSE:
            depth -= 1
        yield part, depth, match.start()
        if part in _OPEN:
            depth += 1


def split(text: str, separators: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the stripped pieces between separators at depth 0, and the separators met."""
    pieces, met, start = [], [], 0
    for part, depth, place in parts(text):
        if depth == 0 and part in separators:
            pieces.append(text[start:place].strip())
            met.append(part)
            start = place + len(part)
    pieces.append(text[start:].strip())
    return pieces, met


def has(text: str, *wanted: str) -> bool:
    """Whether one of the parts stands at depth 0."""
    return any(depth == 0 and part in wanted for part, depth, _ in parts(text))


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Return (opening, inner text, closing) if one pair of brackets holds the whole text."""
    found = list(parts(text))
    if len(found) < 2 or found[0][0] not in _OPEN or found[-1][0] not in _CLOSE:
        return None
    if any(depth <= 0 for _, depth, _ in found[1:-1]) or found[-1][1] != 0:
        return None
    opening, closing = found[0][0], found[-1][0]
    return opening, text[len(opening) : found[-1][2]].strip(), closing


def well_formed(text: str) -> bool:
    """Whether every bracket closes and none closes first."""
    depth = 0
    for part, depth, _ in parts(text):
        if depth < 0:
            return False
        depth += part in _OPEN
    return depth == 0
