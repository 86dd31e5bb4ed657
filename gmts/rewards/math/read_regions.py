r"""Reading sets of real numbers: (0, 9) \cup (9, 36), (0, 36) \setminus \{9\}, x \ge 2."""

import re
from collections.abc import Callable
from dataclasses import replace

from sympy import Expr, oo

from gmts.rewards.math.lexer import UnreadableError
from gmts.rewards.math.regions import (
    DIFFERENCE,
    EVERYTHING,
    INTERSECTION,
    NOTHING,
    UNION,
    combine,
    interval,
    single,
)
from gmts.rewards.math.split import enclosed, has, split
from gmts.rewards.math.values import Region

Parse = Callable[[str], Expr]

_RULES = {r"\cup": UNION, r"\cap": INTERSECTION, r"\setminus": DIFFERENCE}
REGION_SIGNS = tuple(_RULES)
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?|\\Re|\\text\s*\{\s*all real numbers\s*\}")
_INEQUALITIES = {
    "<": (True, False),
    r"\le": (False, False),
    ">": (True, True),
    r"\ge": (False, True),
}
"""Sign -> (strict, the left side is the larger)."""
_VARIABLE = re.compile(r"(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w\}?)?'?")
_OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*\}|\\lor\b|(?<=[\s\d})])or\s")
_AND = re.compile(r"\\text\s*\{\s*,?\s*and\s*\}|\\land\b|(?<=[\s\d})])and\s")
INEQUALITY_SIGNS = tuple(_INEQUALITIES)


def read_region(text: str, parse: Parse) -> Region | None:
    """Return the set that the text writes; None if it writes none, or a lone bracket pair.

    `(a, b)` and `[a, b]` alone may be pairs: they stay what they are until they are compared.

    Raises:
        UnreadableError: If it looks like a set and is none.
    """
    if has(text, *REGION_SIGNS):
        pieces, signs = split(text, frozenset(_RULES))
        found = _piece(pieces[0], parse)
        for sign, piece in zip(signs, pieces[1:], strict=True):
            found = combine(found, _piece(piece, parse), _RULES[sign])
        return found
    for joint, rule in ((_OR, UNION), (_AND, INTERSECTION)):
        if has(text, *INEQUALITY_SIGNS) and joint.search(text):
            first, *others = joint.split(text)
            found = _inequality(first, parse)
            for other in others:
                found = _joined(found, _inequality(other, parse), rule)
            return found
    if has(text, *INEQUALITY_SIGNS, r"\ne"):
        return _inequality(text, parse)
    if _REALS.fullmatch(text):
        return EVERYTHING
    brackets = enclosed(text)
    if brackets and (brackets[0] + brackets[2] in ("(]", "[)") or r"\infty" in text):
        return _interval(brackets, parse)
    return None


def as_region(kind: str, ends: tuple[Expr, ...]) -> Region:
    """Return the interval between two values in brackets.

    Raises:
        UnreadableError: If there are not two, or they are no ends of an interval.
    """
    if len(ends) != 2 or kind not in ("()", "[]", "(]", "[)"):
        raise UnreadableError("an interval has two ends")
    return interval(ends[0], ends[1], with_low=kind[0] == "[", with_high=kind[1] == "]")


def _piece(text: str, parse: Parse) -> Region:
    if _REALS.fullmatch(text):
        return EVERYTHING
    if text == r"\emptyset":
        return NOTHING
    brackets = enclosed(text)
    if brackets is None:
        raise UnreadableError(f"{text!r} is no set of numbers")
    if brackets[0] == r"\{":
        found = NOTHING
        for item in split(brackets[1], frozenset((",",)))[0]:
            found = combine(found, single(parse(item)), UNION)
        return found
    if has(brackets[1], *REGION_SIGNS):
        inner = read_region(brackets[1], parse)
        assert inner is not None
        return inner
    return _interval(brackets, parse)


def _interval(brackets: tuple[str, str, str], parse: Parse) -> Region:
    opening, inner, closing = brackets
    ends = split(inner, frozenset((",", ";")))[0]
    return as_region(opening + closing, tuple(parse(end) for end in ends))


def _joined(left: Region, right: Region, rule: Callable[[bool, bool], bool]) -> Region:
    if left.variable != right.variable:
        raise UnreadableError("the inequalities are about different letters")
    return combine(left, right, rule)


def _inequality(text: str, parse: Parse) -> Region:
    r"""One letter between numbers: x > 3, -2 \le x < 7, x \ne 0."""
    pieces, signs = split(text.strip().strip(","), frozenset((*INEQUALITY_SIGNS, r"\ne", "=")))
    letters = [place for place, piece in enumerate(pieces) if _VARIABLE.fullmatch(piece)]
    letters = [place for place in letters if parse(pieces[place]).is_Symbol]
    if len(letters) != 1 or "=" in signs:
        raise UnreadableError("an inequality must be about one letter")
    place = letters[0]
    found = EVERYTHING
    for number, sign in enumerate(signs):
        if place not in (number, number + 1):
            raise UnreadableError("the letter must stand beside each sign")
        bound = parse(pieces[number + 1 if place == number else number])
        found = combine(found, _half(sign, bound, letter_first=place == number), INTERSECTION)
    return replace(found, variable=str(parse(pieces[place])))


def _half(sign: str, bound: Expr, *, letter_first: bool) -> Region:
    if sign == r"\ne":
        return combine(EVERYTHING, single(bound), DIFFERENCE)
    strict, left_larger = _INEQUALITIES[sign]
    if left_larger == letter_first:
        return interval(bound, oo, with_low=not strict, with_high=False)
    return interval(-oo, bound, with_low=False, with_high=not strict)
