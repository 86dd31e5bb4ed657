"""Exact numbers, and powers and factorials that are refused before they fill the memory."""

import re
from fractions import Fraction

import sympy
from sympy import Expr, Integer, Rational

from gmts.rewards.math.lexer import TooLargeError, UnreadableError

MAX_BITS = 100_000
"""Of an integer that a power or a factorial makes."""
MAX_FACTORIAL = 5000
MAX_SYMBOLIC_EXPONENT = 5000
MAX_DIGITS = 4000
_MAX_BASE = 36
_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_NUMBER = re.compile(
    r"(?P<whole>\d*)(?:\.(?P<decimals>\d*)(?:\\overline\s*\{(?P<repeated>\d+)\})?)?"
    r"(?:[eE](?P<exponent>[+-]?\d+))?"
)


def exact_number(text: str) -> Fraction:
    r"""Return the exact value of 12, 1.5, .5, 4.5e33 or 0.1\overline{6}.

    Raises:
        TooLargeError: If it has too many digits or too large an exponent.
        UnreadableError: If it is no number.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or text in ("", "."):
        raise UnreadableError(f"{text!r} is no number")
    exponent = int((match.group("exponent") or "0")[:8])
    if len(text) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        raise TooLargeError(f"a number may have {MAX_DIGITS} digits, got more")
    whole, decimals = match.group("whole") or "", match.group("decimals") or ""
    value = Fraction(int(whole + decimals or "0"), 10 ** len(decimals))
    if repeated := match.group("repeated"):
        nines = (10 ** len(repeated) - 1) * 10 ** len(decimals)
        value += Fraction(int(repeated), nines)
    return value * Fraction(10) ** exponent


def rational(value: Fraction) -> Rational:
    """Return the sympy number of a fraction."""
    return Rational(value.numerator, value.denominator)


def in_base(digits: str, base: int) -> Integer:
    """Return the value of `digits` written in `base`.

    Raises:
        UnreadableError: If the base is not in [2, 36] or has no such digits.
    """
    try:
        return Integer(int(digits, base) if 2 <= base <= _MAX_BASE else int(""))
    except ValueError as error:
        raise UnreadableError(f"{digits} is no number in base {base}") from error


def number_base(text: str) -> int:
    """Return the base that a subscript names: 8, (8), eight, base8; 0 if it names none."""
    name = text.strip("()").lower().removeprefix("base").strip("()")
    return int(name) if name.isdecimal() and len(name) <= 2 else _BASES.get(name, 0)


def power(base: Expr, exponent: Expr) -> Expr:
    """Return base ** exponent.

    Raises:
        TooLargeError: If the result would be a number of more than MAX_BITS, or its exponent is.
    """
    if exponent.is_Rational:
        size = abs(exponent.p)
        if base.is_Rational and base not in (0, 1, -1):
            bits = max(abs(base.p), base.q).bit_length()
            if size * bits > MAX_BITS or exponent.q > MAX_BITS:
                raise TooLargeError(f"a number may have {MAX_BITS} bits, a power has more")
        elif not base.is_Rational and max(size, exponent.q) > MAX_SYMBOLIC_EXPONENT:
            raise TooLargeError(f"an exponent may be {MAX_SYMBOLIC_EXPONENT}, got {exponent}")
    return sympy.Pow(base, exponent)


def factorial(value: Expr) -> Expr:
    """Return value!.

    Raises:
        TooLargeError: If the value is a number over MAX_FACTORIAL.
    """
    if value.is_number and not abs(value) <= MAX_FACTORIAL:
        raise TooLargeError(f"a factorial may be of {MAX_FACTORIAL}, got more")
    return sympy.factorial(value)


def binomial(n: Expr, k: Expr) -> Expr:
    """Return n over k.

    Raises:
        TooLargeError: If either is a number over MAX_FACTORIAL.
    """
    for value in (n, k):
        if value.is_number and not abs(value) <= MAX_FACTORIAL:
            raise TooLargeError(f"a binomial may be of {MAX_FACTORIAL}, got more")
    return sympy.binomial(n, k)


def plain_fraction(text: str) -> Fraction | None:
    r"""Return the value of an integer, decimal, a/b, 1 a/b or \frac{a}{b}; None for all else.

    Most answers are this, and need no parser.
    """
    match = _PLAIN.fullmatch(text)
    if match is None or len(text) > _MAX_PLAIN:
        return None
    top = match.group("top") or match.group("number") or match.group("a")
    bottom = match.group("bottom") or match.group("b")
    if bottom is not None and not int(bottom):
        return None
    value = Fraction(top) / (int(bottom) if bottom else 1) + int(match.group("whole") or 0)
    return -value if match.group("sign") == "-" else value


_MAX_PLAIN = 100
_PLAIN = re.compile(
    r"(?P<sign>[-+]?)\s*(?:(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"|(?:(?P<whole>\d+)\s+)?(?P<a>\d+)\s*/\s*(?P<b>\d+)"
    r"|\\frac\s*\{\s*(?P<top>-?\d+)\s*\}\s*\{\s*(?P<bottom>\d+)\s*\})"
)
