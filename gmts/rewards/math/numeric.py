"""Whether two expressions are equal: exactly where they are rational, else by many digits.

A difference counts as zero when its value, computed with rising precision, stays below 10^-200 at
every point; nothing is rounded, so a decimal of any length is not pi.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product

import sympy
from sympy import Expr, I, Integer, Rational, Symbol
from sympy.core.function import AppliedUndef

from gmts.rewards.math.lexer import UnreadableError

_DIGITS = 15
_MAX_DIGITS = 260
_ZERO = sympy.Float("1e-200")
_CLEARLY_DIFFERENT = 1e-6
_NUM_POINTS = 5
_REAL = tuple(
    Rational(*pair)
    for pair in ((37, 19), (-23, 17), (71, 13), (11, 29), (-59, 11), (101, 31), (-7, 41), (43, 23))
)
_POSITIVE = tuple(abs(value) for value in _REAL)
_WHOLE = tuple(map(Integer, (7, 4, 11, 2, 9, 5, 16, 3, 13, 6, 21, 10, 1, 8, 12, 15)))
_STEPS = (
    sympy.floor, sympy.ceiling, sympy.factorial, sympy.factorial2, sympy.binomial, sympy.Mod,
)  # fmt: skip
_MAX_WHOLE_POINTS = 16


@lru_cache(maxsize=8192)
def equal(left: Expr, right: Expr, rel_tol: float = 0.0) -> bool:
    """Whether two expressions have the same value wherever both are defined.

    Symbols are real; points where either side is not real are left out unless i is written.
    Sides with floor, ceiling, factorial or binomial are compared at whole numbers.

    Args:
        left: The right answer.
        right: Another.
        rel_tol: Numbers may differ by this share of `left`'s; 0 for exact equality.
    """
    if left == right:
        return True
    left, right = _opaque(left), _opaque(right)
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    if not symbols:
        return _equal_numbers(left, right, rel_tol)
    if left.free_symbols != right.free_symbols and not _may_cancel(left, right):
        return False
    return _equal_at_points(left, right, symbols)


def factor_between(left: Expr, right: Expr) -> Expr | None:
    """Return the number c, not zero, with left = c * right everywhere; None if there is none."""
    left, right = _opaque(left), _opaque(right)
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    if not symbols:
        return None if _is_zero(left) or _is_zero(right) else left / right
    for values in (_REAL, _POSITIVE):
        for point in _points(symbols, values):
            here, there = _at(left, point), _at(right, point)
            if any(_undefined(value) or _is_zero(value) for value in (here, there)):
                continue
            factor = here / there
            return factor if _equal_at_points(left, factor * right, symbols) else None
    return None


def is_less(left: Expr, right: Expr) -> bool:
    """Whether a real number is less than another that it does not equal.

    Raises:
        UnreadableError: If either is not real.
    """
    difference = sympy.N(right - left, _DIGITS)
    if not difference.is_extended_real:
        raise UnreadableError(f"only real numbers have an order, got {left} and {right}")
    return bool(difference > 0)


def _equal_at_points(left: Expr, right: Expr, symbols: list[Symbol]) -> bool:
    stepped = left.has(*_STEPS) or right.has(*_STEPS)
    keep_complex = left.has(I) or right.has(I)
    if not stepped:
        for values in (_REAL, _POSITIVE):
            compared = _compared(left, right, _points(symbols, values), keep_complex, _NUM_POINTS)
            if compared is not None:
                return compared
    whole = _compared(left, right, _points(symbols, _WHOLE), True, _MAX_WHOLE_POINTS)
    return bool(whole)


def _compared(
    left: Expr,
    right: Expr,
    points: Iterator[dict[Symbol, Rational]],
    keep_complex: bool,
    wanted: int,
) -> bool | None:
    """Compare at up to `wanted` points; None if fewer than three are of use."""
    used = 0
    for point in points:
        here, there = _at(left, point), _at(right, point)
        if _undefined(here) or _undefined(there):
            continue
        if not keep_complex and not (_is_real(here) and _is_real(there)):
            continue
        if not _equal_numbers(here, there, 0.0):
            return False
        used += 1
        if used == wanted:
            return True
    return True if used >= 3 else None


def _points(
    symbols: list[Symbol], values: tuple[Rational, ...]
) -> Iterator[dict[Symbol, Rational]]:
    """Yield points whose coordinates are all different where there are enough values."""
    count = len(values)
    for start, step in product(range(count), (1, 3, 5)):
        yield {
            symbol: values[(start + step * i) % count] + (i // count)
            for i, symbol in enumerate(symbols)
        }


def _at(expression: Expr, point: dict[Symbol, Rational]) -> Expr:
    value: Expr = expression.xreplace(point)
    return value


def _undefined(value: Expr) -> bool:
    return bool(value.has(sympy.nan, sympy.zoo))


def _is_real(value: Expr) -> bool:
    if value.is_extended_real is not None:
        return bool(value.is_extended_real)
    _, imaginary = sympy.N(value, _DIGITS).as_real_imag()
    return bool(abs(imaginary) < _CLEARLY_DIFFERENT)


def _equal_numbers(left: Expr, right: Expr, rel_tol: float) -> bool:
    if left.is_Rational and right.is_Rational:
        return _close(left, right, rel_tol) if rel_tol else bool(left == right)
    if left.is_infinite or right.is_infinite:
        return bool(left == right)
    near = sympy.N(left, _DIGITS), sympy.N(right, _DIGITS)
    if any(not value.is_number or _undefined(value) for value in near):
        return False
    size = abs(near[0])
    if rel_tol:
        return bool(abs(near[0] - near[1]) <= rel_tol * size)
    if abs(near[0] - near[1]) > _CLEARLY_DIFFERENT * size:
        return False
    return _is_zero(left - right)


def _close(left: Rational, right: Rational, rel_tol: float) -> bool:
    return bool(abs(left - right) <= rational_tolerance(rel_tol) * abs(left))


def rational_tolerance(rel_tol: float) -> Rational:
    """Return the tolerance as the decimal that it was written as."""
    exact = Fraction(str(rel_tol))
    return Rational(exact.numerator, exact.denominator)


def _is_zero(value: Expr) -> bool:
    if value.is_Rational:
        return bool(value == 0)
    if value.is_zero:
        return True
    shown = sympy.N(value, _DIGITS, maxn=_MAX_DIGITS)
    return bool(abs(shown) < _ZERO)


def _may_cancel(left: Expr, right: Expr) -> bool:
    """Whether a symbol that one side lacks may be without effect, as x in x - x + 1."""
    return bool(max(left.count_ops(), right.count_ops()) > 2)


def _opaque(expression: Expr) -> Expr:
    """Replace functions without a definition, f(x), by symbols named after them."""
    unknown = expression.atoms(AppliedUndef)
    if not unknown:
        return expression
    return expression.xreplace({f: Symbol(f"<{f}>") for f in unknown})
