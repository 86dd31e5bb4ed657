"""Sets of real numbers: intervals, points, and what is made of them."""

from collections.abc import Callable
from functools import cmp_to_key

from sympy import Expr, oo

from gmts.rewards.math.lexer import UnreadableError
from gmts.rewards.math.numeric import equal, is_less
from gmts.rewards.math.values import Region

EVERYTHING = Region(points=(), inside=(True,))
NOTHING = Region(points=(), inside=(False,))


def interval(low: Expr, high: Expr, *, with_low: bool, with_high: bool) -> Region:
    """Return an interval; an infinite end has no point.

    Raises:
        UnreadableError: If an end is no real number, or the ends are the wrong way round.
    """
    for end in (low, high):
        if end.free_symbols or not (end.is_extended_real or end in (oo, -oo)):
            raise UnreadableError(f"an interval must end at real numbers, got {end}")
    if low == oo or high == -oo or (low != -oo and high != oo and not is_less(low, high)):
        raise UnreadableError(f"an interval must rise, got {low} to {high}")
    points, inside = list[Expr](), [low == -oo]
    if low != -oo:
        points.append(low)
        inside += [with_low, True]
    if high != oo:
        points.append(high)
        inside += [with_high, False]
    return Region(points=tuple(points), inside=tuple(inside))


def single(point: Expr) -> Region:
    """Return the set of one number.

    Raises:
        UnreadableError: If it is no real number.
    """
    if point.free_symbols or not point.is_real:
        raise UnreadableError(f"a point must be a real number, got {point}")
    return Region(points=(point,), inside=(False, True, False))


def combine(left: Region, right: Region, rule: Callable[[bool, bool], bool]) -> Region:
    """Return the set of numbers for which `rule` of both memberships holds."""
    points = list[Expr]()
    ordered = sorted((*left.points, *right.points), key=cmp_to_key(_order))
    for point in ordered:
        if not points or not equal(points[-1], point):
            points.append(point)
    inside = [rule(left.inside[0], right.inside[0])]
    for point in points:
        for after in (False, True):
            inside.append(rule(_member(left, point, after), _member(right, point, after)))
    return _reduced(points, inside, left.variable or right.variable)


UNION: Callable[[bool, bool], bool] = lambda a, b: a or b  # noqa: E731
INTERSECTION: Callable[[bool, bool], bool] = lambda a, b: a and b  # noqa: E731
DIFFERENCE: Callable[[bool, bool], bool] = lambda a, b: a and not b  # noqa: E731


def same_region(left: Region, right: Region) -> bool:
    """Whether two sets have the same numbers; their letters must agree where both have one."""
    if left.variable and right.variable and left.variable != right.variable:
        return False
    return left.inside == right.inside and all(
        equal(a, b) for a, b in zip(left.points, right.points, strict=True)
    )


def _order(left: Expr, right: Expr) -> int:
    if equal(left, right):
        return 0
    return -1 if is_less(left, right) else 1


def _member(region: Region, point: Expr, after: bool) -> bool:
    """Whether `point`, or what lies just after it, belongs to the set."""
    place = 0
    for number, own in enumerate(region.points):
        if equal(own, point):
            return region.inside[2 * number + 1 + after]
        if is_less(point, own):
            break
        place = 2 * (number + 1)
    return region.inside[place]


def _reduced(points: list[Expr], inside: list[bool], variable: str) -> Region:
    """Drop points where nothing changes."""
    kept, flags = list[Expr](), [inside[0]]
    for number, point in enumerate(points):
        at, after = inside[2 * number + 1], inside[2 * number + 2]
        if flags[-1] == at == after:
            continue
        kept.append(point)
        flags += [at, after]
    return Region(points=tuple(kept), inside=tuple(flags), variable=variable)
