r"""Reading an answer: which kind of value a normalised text is, from the outside in."""

import re
from collections.abc import Callable
from functools import lru_cache

from gmts.rewards.math.expression import parse_expression
from gmts.rewards.math.lexer import MAX_DEPTH, BeyondError, TooLargeError, UnreadableError
from gmts.rewards.math.library import parse_with_library
from gmts.rewards.math.normalise import MAX_ANSWER_CHARS, normalise, plain_words
from gmts.rewards.math.numbers import plain_fraction, rational
from gmts.rewards.math.read_regions import REGION_SIGNS, read_region
from gmts.rewards.math.read_relations import EQUALITY, read_equality, read_relation
from gmts.rewards.math.split import enclosed, has, parts, split, well_formed
from gmts.rewards.math.units import take_unit
from gmts.rewards.math.values import (
    Clock,
    Kind,
    Matrix,
    Quantity,
    Several,
    Value,
    Words,
)

_MAX_ITEMS = 64
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?!\d)")
_CLOCK = re.compile(r"(\d+(?:\s*:\s*\d+)+)\s*(?:\\text\s*\{)?\s*([ap]\.?\s?m)?\.?\s*\}?", re.I)
_MATRIX = re.compile(
    r"(?P<before>.*?)\\begin\s*\{(?P<name>[pbBvV]?matrix|smallmatrix|array)\}(?P<body>.*?)"
    r"\\end\s*\{(?P=name)\}(?P<after>.*)",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_PROSE = re.compile(r"[A-Za-z][A-Za-z' .-]*")
_OR = re.compile(
    r"\\text\s*\{\s*,?\s*(?:or|and)\s*\}|\\(?:or|lor)\b|(?<=[\s\d})])(?:or|and)\s", re.I
)
_APPROXIMATE = re.compile(r"^\s*(?:\\approx|\\text\s*\{\s*(?:about|approximately)\s*\})\s*")
_MEMBERSHIP = re.compile(r"^(?P<name>[A-Za-z]|\\[A-Za-z]+)\s*\\in(?![A-Za-z])\s*(?P<set>.+)$")
_KINDS: dict[tuple[str, str], Kind] = {
    ("(", ")"): "()",
    ("[", "]"): "[]",
    ("(", "]"): "(]",
    ("[", ")"): "[)",
    (r"\{", r"\}"): "set",
    (r"\langle", r"\rangle"): "()",
}


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Value:
    """Return what an answer says; text that is nothing else is words.

    Raises:
        TooLargeError: If it is longer, deeper or larger than what is judged.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise TooLargeError(f"an answer may have {MAX_ANSWER_CHARS} characters, got {len(text)}")
    normal = normalise(text)
    if max((depth for _, depth, _ in parts(normal)), default=0) > MAX_DEPTH:
        raise TooLargeError(f"brackets may lie {MAX_DEPTH} deep, got more")
    return read(normal)


def read(text: str) -> Value:
    """Return what a normalised text says."""
    number = plain_fraction(text)
    if number is not None:
        return Quantity(value=rational(number), source=text)
    for reader in _READERS:
        try:
            value = reader(text)
        except TooLargeError:
            raise
        except UnreadableError:
            continue
        if value is not None:
            return value
    return Words(text=plain_words(text), source=text)


def _exact_part(text: str) -> Value | None:
    r"""`\pi \approx 3.14` states pi; `\approx 3.14` states 3.14."""
    if r"\approx" not in text and "text" not in text:
        return None
    stripped = _APPROXIMATE.sub("", text)
    pieces, met = split(stripped, frozenset((r"\approx",)))
    if stripped == text and not met:
        return None
    return read(pieces[0]) if pieces[0] else None


def _prose(text: str) -> Value | None:
    """Words in letters alone; three letters may be a product and are kept as words too."""
    unwrapped = re.fullmatch(r"\\(?:text|mathrm)\s*\{([^{}]*)\}", text)
    inner = text if unwrapped is None else unwrapped.group(1).strip()
    if unwrapped is not None and re.match(r"\s*[-+]?(?:\\\$)?[\d.]*\d", inner):
        return read(inner)
    if unwrapped is not None and len(plain_words(inner)) > 0 and not inner.isdecimal():
        if r"\mathrm" in text and len(inner) == 1:
            return None
        return Words(text=plain_words(inner), source=text)
    if _PROSE.fullmatch(inner) and _WORD.search(inner) and not _function_word(inner):
        return Words(text=plain_words(inner), source=text)
    return None


def _function_word(text: str) -> bool:
    """Whether the text is sqrt x or the like, written without a backslash."""
    return re.match(r"(?:sqrt|sin|cos|tan|log|ln|exp|pi)\b", text) is not None


def _clock(text: str) -> Value | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    digits = tuple(part.strip() for part in match.group(1).split(":"))
    return Clock(parts=digits, suffix=re.sub(r"[^apm]", "", (match.group(2) or "").lower()))


def _thousands(text: str) -> Value | None:
    """Take separators of thousands out, if every comma is one."""
    if "," in text:
        outer = sum(1 for piece in split(text, frozenset((",",)))[1] if piece)
        inner = sum(match.group().count(",") for match in _THOUSANDS.finditer(text))
        if outer and outer == inner == text.count(","):
            return read(_THOUSANDS.sub(lambda m: m.group().replace(",", ""), text))
    joined = _SPACED_THOUSANDS.sub(lambda m: m.group().replace(" ", ""), text)
    return None if joined == text else read(joined)


def _membership(text: str) -> Value | None:
    match = _MEMBERSHIP.match(text)
    if match is None:
        return None
    if "," in match.group("set") or has(match.group("set"), *REGION_SIGNS):
        return read_equality(f"{match.group('name')}={match.group('set')}", read)
    return None


def _list(text: str) -> Value | None:
    r"""Values between commas, "or" and "and", with \pm written out."""
    joined = _OR.sub(" , ", text) if _OR.search(text) else text
    pieces, met = split(joined, frozenset((",", ";")))
    pieces = [piece for piece in pieces if piece]
    if not met and (len(_signs(text)) == 1 or text.startswith(r"\{")):
        return None
    if len(pieces) > _MAX_ITEMS:
        raise TooLargeError(f"a list may have {_MAX_ITEMS} values, got {len(pieces)}")
    if not well_formed(joined):
        return None
    items = tuple(read(single) for piece in pieces for single in _signs(piece))
    if len(items) == 1:
        return items[0]
    if any(isinstance(item, Words) for item in items) and joined == text and not _short(pieces):
        return None
    return Several(kind="list", items=items)


def _short(pieces: list[str]) -> bool:
    """Whether the pieces are words in a list, not the parts of a sentence."""
    return all(len(plain_words(piece).split()) <= 3 for piece in pieces)


def _signs(text: str) -> list[str]:
    r"""Write \pm out, all signs of a value alike."""
    if r"\pm" not in text and r"\mp" not in text:
        return [text]
    upper = re.sub(r"\\pm(?![A-Za-z])", "+", re.sub(r"\\mp(?![A-Za-z])", "-", text))
    lower = re.sub(r"\\pm(?![A-Za-z])", "-", re.sub(r"\\mp(?![A-Za-z])", "+", text))
    return [upper, lower]


def _bracketed(text: str) -> Value | None:
    found = enclosed(text)
    if found is None:
        return None
    opening, inner, closing = found
    kind = _KINDS.get((opening, closing))
    if kind is None:
        return None
    if kind == "set" and has(inner, "|", ":"):
        return _described(inner)
    pieces, met = split(inner, frozenset((",", ";")))
    if len(pieces) > _MAX_ITEMS:
        raise TooLargeError(f"a tuple may have {_MAX_ITEMS} values, got {len(pieces)}")
    if kind == "set":
        items = tuple(read(s) for piece in pieces if piece for s in _signs(piece))
        return Several(kind=kind, items=items)
    if not met:
        if kind == "()" and (has(inner, EQUALITY) or enclosed(inner)):
            return read(inner)
        return None
    return Several(kind=kind, items=tuple(read(piece) for piece in pieces))


def _described(inner: str) -> Value | None:
    r"""The set of what fulfils a condition: x \in \mathbb{R} : x > 2."""
    pieces, _ = split(inner, frozenset(("|", ":")))
    if len(pieces) != 2 or not re.fullmatch(
        r"[A-Za-z](?:\s*\\in\s*\\mathbb\s*\{?R\}?)?", pieces[0]
    ):
        return None
    return read(pieces[1])


def _matrix(text: str) -> Value | None:
    match = _MATRIX.fullmatch(text)
    if match is None or match.group("name") in ("vmatrix", "Vmatrix"):
        return None
    before, after = match.group("before").strip(), match.group("after").strip()
    if has(before, EQUALITY) or "begin" in after:
        return None
    transposed = re.fullmatch(r"\^\s*\{?\s*(?:T|\\top|\\mathrm\s*\{T\}|t)\s*\}?", after)
    if after and not transposed:
        return None
    body = re.sub(r"\\\\\s*$", "", match.group("body").strip())
    rows = [split(row, frozenset(("&",)))[0] for row in re.split(r"\\\\(?:\[[^\]]*\])?", body)]
    if transposed:
        rows = [list(column) for column in zip(*rows, strict=False)]
    factor = {"": "", "+": "", "-": "-"}.get(before)
    if factor is None:
        before = re.sub(r"(?:\\cdot|\\times|\*)\s*$", "", before)
        parse_expression(before)
        factor = f"({before})"
    return Matrix(
        rows=tuple(
            tuple(read(f"{factor}({cell})" if factor else cell) for cell in row) for row in rows
        )
    )


def _quantity(text: str) -> Value:
    number, unit = take_unit(text)
    if not unit:
        return Quantity(value=_expression(number), source=text)
    whole = _thousands(number)
    if isinstance(whole, Quantity):
        return Quantity(value=whole.value, unit=unit, source=text)
    return Quantity(value=_expression(number), unit=unit, source=text)


def _expression(text: str) -> "object":
    try:
        return parse_expression(text)
    except BeyondError:
        return parse_with_library(text)


_READERS: tuple[Callable[[str], Value | None], ...] = (
    _exact_part,
    _prose,
    _clock,
    _membership,
    lambda text: read_region(text, parse_expression),
    _thousands,
    _list,
    lambda text: read_relation(text, read),
    lambda text: read_equality(text, read),
    _matrix,
    _bracketed,
    _quantity,
)
"""In the order in which they are tried; None or an UnreadableError leaves the text to the next."""
