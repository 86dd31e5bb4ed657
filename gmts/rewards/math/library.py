r"""Notation that our parser leaves to latex2sympy, the parser of math-verify: \sum, \int, \lim."""

import re

import sympy
from sympy import Expr

from gmts.rewards.math.lexer import TooLargeError, UnreadableError

MAX_CHARS = 200
_LARGE = re.compile(r"\d{5,}|\^\s*\{?\s*\d{3,}|!|\^[^^]*\^")


def parse_with_library(text: str) -> Expr:
    r"""Return the value of a sum, product, integral or limit, worked out by sympy.

    It may not come back; the pool's deadline is for that.

    Raises:
        TooLargeError: If the text is long or holds towers, factorials or large numbers.
        UnreadableError: If latex2sympy cannot read it or sympy finds no closed form.
    """
    if len(text) > MAX_CHARS or _LARGE.search(text):
        raise TooLargeError("a sum, integral or limit may not hold long or large terms")
    # Loads antlr, which only these answers need.
    from latex2sympy2_extended.latex2sympy2 import (  # noqa: PLC0415
        ConversionConfig,
        latex2sympy,
    )

    try:
        read = latex2sympy(text, conversion_config=ConversionConfig(lowercase_symbols=False))
    except Exception as error:
        # antlr's listener raises bare Exception for a syntax error.
        raise UnreadableError(f"latex2sympy cannot read it: {error}") from error
    if not isinstance(read, Expr):
        raise UnreadableError(f"latex2sympy reads a {type(read).__name__}, no expression")
    # Its e, i and pi may be symbols.
    constants = {sympy.Symbol("e"): sympy.E, sympy.Symbol("i"): sympy.I}
    value = read.doit().subs(constants)
    if value.has(sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.nan, sympy.zoo):
        raise UnreadableError("there is no closed form")
    return value
