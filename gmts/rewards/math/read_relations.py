"""Reading equations, names given to values, and inequalities between formulas."""

import re
from collections.abc import Callable

from sympy import Expr, Symbol
from sympy.core.function import AppliedUndef

from gmts.rewards.math.expression import parse_expression
from gmts.rewards.math.lexer import UnreadableError
from gmts.rewards.math.normalise import plain_words
from gmts.rewards.math.split import split
from gmts.rewards.math.values import Equation, Labelled, Quantity, Relation, Value, Words

EQUALITY = "="
Read = Callable[[str], Value]

_SIGNS = {"<": (True, -1), r"\le": (False, -1), ">": (True, 1), r"\ge": (False, 1)}
"""Sign -> (strict, the factor that makes the difference of the sides positive)."""
_NAME = re.compile(
    r"(?:\\(?:text|mathrm)\s*\{[^{}=]*\}|\\(?:angle|triangle|overline)\b.*|[A-Za-z ]{3,})"
)


def read_relation(text: str, read: Read) -> Value | None:
    """Return an inequality between formulas; None if the text has no such sign."""
    pieces, signs = split(text, frozenset(_SIGNS))
    if not signs:
        return None
    if len(signs) != 1:
        raise UnreadableError("a chain of inequalities must be about one letter")
    strict, direction = _SIGNS[signs[0]]
    left, right = (parse_expression(piece) for piece in pieces)
    return Relation(difference=direction * (left - right), strict=strict)


def read_equality(text: str, read: Read) -> Value | None:
    """Return an equation or a labelled value; None if there is no equals sign.

    Of a chain, x = 2 + 3 = 5, the last part is the value.
    """
    pieces, signs = split(text, frozenset((EQUALITY,)))
    if not signs:
        return None
    if not all(pieces):
        raise UnreadableError("an equation has two sides")
    label = _label(pieces[0])
    if label is None and len(pieces) == 2 and (swapped := _label(pieces[1])) is not None:
        pieces, label = pieces[::-1], swapped
    value = read(pieces[-1])
    difference = None
    if len(pieces) == 2 and not isinstance(label, str) and isinstance(value, Quantity | Words):
        left = parse_expression(pieces[0]) if label is None else label
        right = value.value if isinstance(value, Quantity) else parse_expression(pieces[1])
        difference = left - right
    if label is not None:
        return Labelled(label=label, value=value, difference=difference)
    if difference is None:
        raise UnreadableError("an equation has a formula on either side")
    return Equation(difference=difference)


def spread_label(items: tuple[Value, ...]) -> tuple[Value, ...]:
    """Give the label of the first value to those that follow without: n = 1, 2, 3."""
    first = items[0]
    if not isinstance(first, Labelled) or any(isinstance(v, Labelled) for v in items[1:]):
        return items
    return tuple(
        item
        if isinstance(item, Labelled)
        else Labelled(label=first.label, value=item, difference=None)
        for item in items
    )


def _label(text: str) -> Expr | str | None:
    """Return the name on one side of an equals sign; None if it is a formula."""
    try:
        found = parse_expression(text)
    except UnreadableError:
        return plain_words(text) if _NAME.fullmatch(text) else None
    return found if isinstance(found, Symbol | AppliedUndef) else None
