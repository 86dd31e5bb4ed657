"""Whether two answers say the same."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from sympy import Expr, Integer, Rational, Symbol, pi
from sympy.core.function import AppliedUndef

from gmts.rewards.math.expression import parse_expression
from gmts.rewards.math.lexer import UnreadableError
from gmts.rewards.math.normalise import plain_words
from gmts.rewards.math.numeric import equal, factor_between
from gmts.rewards.math.read_regions import as_region
from gmts.rewards.math.read_relations import spread_label
from gmts.rewards.math.regions import NOTHING, UNION, combine, same_region, single
from gmts.rewards.math.units import DEGREE, PERCENT
from gmts.rewards.math.values import (
    Clock,
    Equation,
    Labelled,
    Matrix,
    Quantity,
    Region,
    Relation,
    Several,
    Value,
    Words,
)

_SCALES = {DEGREE: pi / 180, PERCENT: Rational(1, 100)}
"""What a unit is worth without its sign."""
_OPTION = re.compile(r"\(?\s*([A-Za-z])\s*\)?")


def same(gold: Value, other: Value, rel_tol: float = 0.0) -> bool:
    """Whether `other` says what `gold` says.

    Args:
        gold: The right answer.
        other: The response's.
        rel_tol: Share of the gold number by which a number may differ.
    """
    compare = _COMPARISONS.get((type(gold), type(other)))
    if compare is not None:
        return compare(gold, other, rel_tol)
    if isinstance(gold, Labelled) or isinstance(other, Labelled):
        return _one_labelled(gold, other, rel_tol)
    if isinstance(gold, Region) or isinstance(other, Region):
        return _one_region(gold, other)
    if isinstance(gold, Words) or isinstance(other, Words):
        return _one_words(gold, other, rel_tol)
    return _column_and_tuple(gold, other, rel_tol) or _ratio_and_number(gold, other, rel_tol)


def _quantities(gold: Quantity, other: Quantity, rel_tol: float) -> bool:
    if gold.unit and other.unit:
        return gold.unit == other.unit and equal(gold.value, other.value, rel_tol)
    if equal(gold.value, other.value, rel_tol):
        return True
    if gold.unit in _SCALES:
        return equal(gold.value * _SCALES[gold.unit], other.value, rel_tol)
    if other.unit in _SCALES:
        return equal(gold.value, other.value * _SCALES[other.unit], rel_tol)
    return False


def _words(gold: Words, other: Words, rel_tol: float) -> bool:
    if gold.text == other.text:
        return True
    letters = _option(gold.text), _option(other.text)
    return letters[0] is not None and letters[0] == letters[1]


def _clocks(gold: Clock, other: Clock, rel_tol: float) -> bool:
    if gold.suffix and other.suffix and gold.suffix != other.suffix:
        return False
    if _is_time(gold) or _is_time(other) or gold.suffix or other.suffix:
        return [int(part) for part in gold.parts] == [int(part) for part in other.parts]
    numbers = [[int(part) for part in value.parts] for value in (gold, other)]
    return len(numbers[0]) == len(numbers[1]) and all(
        a * numbers[1][0] == b * numbers[0][0] for a, b in zip(*numbers, strict=True)
    )


def _is_time(value: Clock) -> bool:
    return all(len(part) == 2 for part in value.parts[1:])


def _several(gold: Several, other: Several, rel_tol: float) -> bool:
    unordered = ("list", "set")
    if (gold.kind in unordered) != (other.kind in unordered):
        # A bare list may leave out a tuple's parentheses, in the tuple's order.
        listed, tupled = sorted((gold.kind, other.kind), key=lambda kind: kind not in unordered)
        if listed == "set" or tupled not in ("()", "[]") or (tupled == "[]" and _two(gold, other)):
            return False
        return _in_order(gold.items, other.items, rel_tol)
    if gold.kind not in unordered:
        if gold.kind != other.kind and (_two(gold, other) or "(]" in (gold.kind, other.kind)):
            return False
        return _in_order(gold.items, other.items, rel_tol)
    return _any_order(gold, other, rel_tol)


def _two(gold: Several, other: Several) -> bool:
    return len(gold.items) == len(other.items) == 2


def _in_order(gold: Sequence[Value], other: Sequence[Value], rel_tol: float) -> bool:
    return len(gold) == len(other) and all(
        same(a, b, rel_tol) for a, b in zip(gold, other, strict=True)
    )


def _any_order(gold: Several, other: Several, rel_tol: float) -> bool:
    mine, theirs = (spread_label(value.items) if value.items else () for value in (gold, other))
    if "set" in (gold.kind, other.kind):
        mine, theirs = _distinct(mine), _distinct(theirs)
    if len(mine) != len(theirs):
        return False
    # Labels that differ say which value is which; a side without them must keep the order.
    for labelled, plain in ((mine, theirs), (theirs, mine)):
        names = {str(item.label) for item in labelled if isinstance(item, Labelled)}
        if len(names) > 1 and not any(isinstance(item, Labelled) for item in plain):
            return _in_order(mine, theirs, rel_tol)
    left = list(theirs)
    for item in mine:
        place = next((i for i, value in enumerate(left) if same(item, value, rel_tol)), None)
        if place is None:
            return False
        del left[place]
    return True


def _distinct(items: Sequence[Value]) -> tuple[Value, ...]:
    kept: list[Value] = []
    for item in items:
        if not any(same(value, item) for value in kept):
            kept.append(item)
    return tuple(kept)


def _matrices(gold: Matrix, other: Matrix, rel_tol: float) -> bool:
    return len(gold.rows) == len(other.rows) and all(
        _in_order(a, b, rel_tol) for a, b in zip(gold.rows, other.rows, strict=True)
    )


def _labelled(gold: Labelled, other: Labelled, rel_tol: float) -> bool:
    if str(gold.label) == str(other.label):
        return same(gold.value, other.value, rel_tol)
    renamed = _renamed(gold, other)
    if renamed is not None:
        return same(gold.value, renamed, rel_tol)
    if gold.difference is None or other.difference is None:
        return False
    # x = 5 and y = 5 differ; y = x and x = y are the same equation.
    return bool(
        gold.difference.free_symbols == other.difference.free_symbols
        and factor_between(gold.difference, other.difference) is not None
    )


def _renamed(gold: Labelled, other: Labelled) -> Value | None:
    """Return the value of f(n) = ... in the variable of f(x) = ...; None if they differ more."""
    a, b = gold.label, other.label
    if not (isinstance(a, AppliedUndef) and isinstance(b, AppliedUndef) and a.func == b.func):
        return None
    if len(a.args) != 1 or len(b.args) != 1 or not isinstance(other.value, Quantity):
        return None
    mine, theirs = a.args[0], b.args[0]
    if not (isinstance(mine, Symbol) and isinstance(theirs, Symbol)):
        return None
    if mine in other.value.value.free_symbols:
        return None
    value: Expr = other.value.value.xreplace({theirs: mine})
    return Quantity(value=value, unit=other.value.unit)


def _one_labelled(gold: Value, other: Value, rel_tol: float) -> bool:
    labelled, plain = (gold, other) if isinstance(gold, Labelled) else (other, gold)
    assert isinstance(labelled, Labelled)
    if isinstance(plain, Equation):
        return labelled.difference is not None and (
            factor_between(labelled.difference, plain.difference) is not None
        )
    if isinstance(plain, Region) and plain.variable not in ("", str(labelled.label)):
        return False
    if isinstance(plain, Several) and plain.items and _is_listing(plain):
        return False
    return (
        same(labelled.value, plain, rel_tol)
        if labelled is gold
        else same(plain, labelled.value, rel_tol)
    )


def _is_listing(value: Several) -> bool:
    return any(isinstance(item, Labelled) for item in value.items)


def _equations(gold: Equation, other: Equation, rel_tol: float) -> bool:
    return factor_between(gold.difference, other.difference) is not None


def _relations(gold: Relation, other: Relation, rel_tol: float) -> bool:
    factor = factor_between(gold.difference, other.difference)
    return gold.strict == other.strict and factor is not None and bool(factor > 0)


def _regions(gold: Region, other: Region, rel_tol: float) -> bool:
    return same_region(gold, other)


def _one_region(gold: Value, other: Value) -> bool:
    region, plain = (gold, other) if isinstance(gold, Region) else (other, gold)
    assert isinstance(region, Region)
    if not isinstance(plain, Several) or not all(isinstance(v, Quantity) for v in plain.items):
        return False
    values: tuple[Any, ...] = plain.items
    try:
        if plain.kind == "set":
            points = NOTHING
            for item in values:
                points = combine(points, single(item.value), UNION)
            return same_region(region, points)
        return same_region(region, as_region(plain.kind, tuple(v.value for v in values)))
    except UnreadableError:
        return False


def _one_words(gold: Value, other: Value, rel_tol: float) -> bool:
    words, plain = (gold, other) if isinstance(gold, Words) else (other, gold)
    assert isinstance(words, Words)
    if not isinstance(plain, Quantity):
        return False
    if words.text == plain_words(plain.source):
        return True
    letters = _option(words.text), _option(plain.source.strip())
    if letters[0] is not None and letters[0] == letters[1]:
        return True
    try:
        return equal(parse_expression(words.source), plain.value, rel_tol)
    except UnreadableError:
        return False


def _option(text: str) -> str | None:
    match = _OPTION.fullmatch(text)
    return None if match is None else match.group(1).casefold()


def _column_and_tuple(gold: Value, other: Value, rel_tol: float) -> bool:
    """A column vector may be written as a tuple; a row may not."""
    matrix, plain = (gold, other) if isinstance(gold, Matrix) else (other, gold)
    if not isinstance(matrix, Matrix) or not isinstance(plain, Several) or plain.kind != "()":
        return False
    if any(len(row) != 1 for row in matrix.rows):
        return False
    column = [row[0] for row in matrix.rows]
    return (
        _in_order(column, plain.items, rel_tol)
        if matrix is gold
        else _in_order(plain.items, column, rel_tol)
    )


def _ratio_and_number(gold: Value, other: Value, rel_tol: float) -> bool:
    """3:2 is 3/2; a time is no number."""
    ratio, plain = (gold, other) if isinstance(gold, Clock) else (other, gold)
    if not isinstance(ratio, Clock) or not isinstance(plain, Quantity) or len(ratio.parts) != 2:
        return False
    if _is_time(ratio) or ratio.suffix or not int(ratio.parts[1]):
        return False
    value = Integer(int(ratio.parts[0])) / int(ratio.parts[1])
    return equal(value, plain.value, rel_tol)


_COMPARISONS: dict[tuple[type, type], Callable[[Any, Any, float], bool]] = {
    (Quantity, Quantity): _quantities,
    (Words, Words): _words,
    (Clock, Clock): _clocks,
    (Several, Several): _several,
    (Matrix, Matrix): _matrices,
    (Labelled, Labelled): _labelled,
    (Equation, Equation): _equations,
    (Relation, Relation): _relations,
    (Region, Region): _regions,
}
"""Of values of one kind; `same` knows the pairs of different kinds."""
