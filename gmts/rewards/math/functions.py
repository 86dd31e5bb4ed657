"""What commands of a formula mean."""

from collections.abc import Callable

import sympy
from sympy import E, Expr, I, Symbol, oo, pi

FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec,
    "csc": sympy.csc, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "asin": sympy.asin, "acos": sympy.acos, "atan": sympy.atan, "arccot": sympy.acot,
    "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh, "coth": sympy.coth,
    "arcsinh": sympy.asinh, "arccosh": sympy.acosh, "arctanh": sympy.atanh,
    "ln": sympy.log, "log": sympy.log, "lg": lambda x: sympy.log(x) / sympy.log(10),
    "exp": sympy.exp,
}  # fmt: skip
"""Functions of one argument. log is natural unless a base stands below it."""

INVERSES = {
    "sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot",
    "sinh": "arcsinh", "cosh": "arccosh", "tanh": "arctanh",
}  # fmt: skip
"""What sin^{-1} and the like name."""

CONSTANTS: dict[str, Expr] = {
    "pi": pi,
    "infty": oo,
    "inf": oo,
    "imath": I,
    "emptyset": Symbol("emptyset"),
}
LETTERS: dict[str, Expr] = {"e": E, "i": I}
"""Letters that are constants."""

SYMBOLS = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
    "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
    "hbar", "ell", "Re", "Im", "mho", "varsigma", "varrho", "varpi", "nabla", "AA",
}  # fmt: skip
"""Commands that are symbols."""

ACCENTS = {
    "dot", "ddot", "hat", "vec", "tilde", "overline", "underline", "check", "breve", "mathcal",
    "mathbb",
}  # fmt: skip
"""Commands that make another symbol of the one they stand on."""

BEYOND = {
    "sum", "prod", "int", "iint", "iiint", "oint", "lim", "limsup", "liminf",
}  # fmt: skip
"""Notation that latex2sympy reads for us."""

FUNCTION_LETTERS = frozenset("fghFGH")
"""Letters before a parenthesis that are functions, never factors."""
