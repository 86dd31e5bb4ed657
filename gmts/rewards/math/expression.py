r"""Formulas as sympy expressions: a recursive descent over bounded tokens that evaluates nothing
large and never calls eval.

latex2sympy, math-verify's parser, needs 2 to 60 ms for an answer, reads `\cos x / \sin x` as
cos(x / sin x), 2516_8 as 2516 and 4.5e33 as 4.5 * e * 33, makes symbols lower case, and evaluates
9^{9^{9}} while it parses. It is kept for sums, products, integrals and limits (see library.py).
"""

from collections.abc import Sequence

import sympy
from sympy import Expr, Function, Integer, Rational, Symbol

from gmts.rewards.math.functions import (
    ACCENTS,
    BEYOND,
    CONSTANTS,
    FUNCTION_LETTERS,
    FUNCTIONS,
    INVERSES,
    LETTERS,
    SYMBOLS,
)
from gmts.rewards.math.lexer import BeyondError, Cursor, Token, UnreadableError, tokenise
from gmts.rewards.math.numbers import (
    binomial,
    exact_number,
    factorial,
    in_base,
    number_base,
    plain_fraction,
    power,
    rational,
)

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MULTIPLY = frozenset(("*", "cdot", "times"))
_DIVIDE = frozenset(("/", "div"))
_ENDS = frozenset(
    (
        "*",
        "cdot",
        "times",
        "/",
        "div",
        "+",
        "-",
        ")",
        "]",
        "}",
        "=",
        "<",
        ">",
        ",",
        "rfloor",
        "rceil",
        ":",
        "&",
    )
)
_DEGREE = sympy.pi / 180


def parse_expression(text: str) -> Expr:
    """Return the value of a formula.

    Raises:
        UnreadableError: If it is none, too large, or has no value (TooLargeError, BeyondError).
    """
    number = plain_fraction(text)
    if number is not None:
        return rational(number)
    parser = _Parser(tokenise(text))
    value = parser.expression()
    if parser.next is not None:
        raise UnreadableError(f"{parser.next.text!r} is one too many")
    if value.has(sympy.nan, sympy.zoo):
        raise UnreadableError("the formula has no value")
    return value


class _Parser(Cursor):
    """Reads tokens from left to right; one method per level of precedence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._bars = 0  # absolute values that are open

    def expression(self) -> Expr:
        """A sum."""
        terms = [self._term()]
        while self.sees("+") or self.sees("-"):
            sign = self.take().text
            term = self._term()
            terms.append(-term if sign == "-" else term)
        return sympy.Add(*terms)

    def _term(self) -> Expr:
        """A product, from left to right; factors that touch are multiplied."""
        value = self._signed()
        while True:
            text = self.peek()
            if text in _MULTIPLY:
                self.take()
                value = value * self._signed()
            elif text in _DIVIDE:
                self.take()
                value = self._divided(value, self._signed())
            elif self._starts_factor():
                value = value * self._power()
            else:
                return value

    def _signed(self) -> Expr:
        negative = False
        while self.sees("-") or self.sees("+"):
            negative ^= self.take().text == "-"
        value = self._power()
        return -value if negative else value

    def _starts_factor(self) -> bool:
        token = self.next
        if token is None or token.text in _ENDS or token.text in ("^", "_", "!", "'"):
            return False
        return token.text != "|" or not self._bars

    def _divided(self, top: Expr, bottom: Expr) -> Expr:
        if bottom.is_zero:
            raise UnreadableError("division by zero")
        return top / bottom

    def _power(self) -> Expr:
        value = self._primary()
        while True:
            if self.sees("!"):
                self.take()
                value = factorial(value)
            elif self.sees("^"):
                self.take()
                value = self._raised(value)
            else:
                return value

    def _raised(self, base: Expr) -> Expr:
        if self.takes_degree():
            return base * _DEGREE
        return power(base, self._script())

    def _script(self) -> Expr:
        """An exponent: a group, or one signed factor."""
        if self.sees("{"):
            return self._group()
        if self.sees("-") or self.sees("+"):
            return -self._script() if self.take().text == "-" else self._script()
        return self._primary()

    def _group(self) -> Expr:
        opening = self.take().text
        bars, self._bars = self._bars, 0
        value = self.expression()
        self._bars = bars
        self.expect(_CLOSING[opening])
        return value

    def _argument(self) -> Expr:
        r"""What a command takes: a group, or a single digit, letter or command (\frac12)."""
        if self.sees("{"):
            return self._group()
        token = self.next
        if token is not None and token.kind == "number" and len(token.text) > 1:
            rest = Token(kind="number", text=token.text[1:])
            self.tokens[self.place : self.place + 1] = [
                Token(kind="number", text=token.text[0]),
                rest,
            ]
        return self._primary()

    def _primary(self) -> Expr:
        token = self.take()
        if token.kind == "number":
            return self._number(token.text)
        if token.kind == "letter":
            return self._symbol(token.text)
        if token.kind in ("command", "word"):
            return self._command(token.text)
        if token.kind in _CLOSING:
            self.place -= 1
            return self._group()
        if token.kind == "|":
            self._bars += 1
            value = self.expression()
            self._bars -= 1
            self.expect("|")
            return sympy.Abs(value)
        raise UnreadableError(f"{token.text!r} starts nothing")

    def _number(self, text: str) -> Expr:
        if self.sees("_"):
            return in_base(text, number_base(self.subscript()))
        value = rational(exact_number(text))
        return value + self._mixed() if text.isdecimal() else value

    def _mixed(self) -> Expr:
        r"""The fraction of a mixed number: 1\frac{4}{5} is nine fifths."""
        shape = [t.text for t in self.tokens[self.place : self.place + 7]]
        if shape[:1] == ["frac"]:
            top, bottom = "".join(shape[1:4]), "".join(shape[4:7])
            if top.strip("{}").isdecimal() and bottom.strip("{}").isdecimal() and len(shape) == 7:
                self.place += 7
                return Rational(int(top.strip("{}")), int(bottom.strip("{}")) or 1)
            if len(shape) > 1 and shape[1].isdecimal() and len(shape[1]) == 2:
                self.place += 2
                return Rational(int(shape[1][0]), int(shape[1][1]) or 1)
        return Integer(0)

    def _symbol(self, name: str) -> Expr:
        """A symbol with its subscript and primes, a constant, or a function of what follows."""
        full = name
        if self.sees("_"):
            full += f"_{self.subscript()}"
        full += self.primes()
        if full in LETTERS:
            return LETTERS[full]
        if self.sees("(") and (name in FUNCTION_LETTERS or self._lone_argument()):
            return Function(full)(*self._list_of_arguments())
        return Symbol(full)

    def _lone_argument(self) -> bool:
        """Whether a lone number or letter in parentheses follows, as in I(0) or u(t)."""
        shape = self.tokens[self.place + 1 : self.place + 3]
        return (
            len(shape) == 2
            and (shape[0].kind in ("number", "letter") or shape[0].text in SYMBOLS)
            and shape[1].text == ")"
        )

    def _list_of_arguments(self) -> list[Expr]:
        self.expect("(")
        found = [self.expression()]
        while self.sees(","):
            self.take()
            found.append(self.expression())
        self.expect(")")
        return found

    def _command(self, name: str) -> Expr:
        if name in BEYOND:
            raise BeyondError(f"\\{name} is left to latex2sympy")
        if name in FUNCTIONS:
            return self._function(name)
        if name in _SPECIAL:
            return _SPECIAL[name](self)
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in SYMBOLS:
            return self._symbol(name)
        if name in ACCENTS:
            return self._symbol(f"{name}({self.raw_group()})")
        raise UnreadableError(f"\\{name} means nothing here")

    def _function(self, name: str) -> Expr:
        exponent: Expr | None = None
        base: Expr | None = None
        while self.sees("^") or self.sees("_"):
            if self.take().text == "^":
                exponent = self._script()
            else:
                base = self._script()
        if exponent == -1 and name in INVERSES:
            name, exponent = INVERSES[name], None
        value = FUNCTIONS[name](self._function_argument())
        if base is not None:
            value = self._divided(value, FUNCTIONS[name](base))
        return value if exponent is None else power(value, exponent)

    def _function_argument(self) -> Expr:
        """A group, or the factors that follow up to a sign or another function."""
        if self.next is not None and self.next.kind in _CLOSING:
            return self._group()
        value = self._signed()
        while self._starts_factor() and self.peek() not in FUNCTIONS:
            value = value * self._power()
        return value

    def _fraction(self) -> Expr:
        start = self.place
        if (derivative := self._derivative()) is not None:
            return derivative
        self.place = start
        top = self._argument()
        return self._divided(top, self._argument())

    def _derivative(self) -> Expr | None:
        r"""\frac{dx}{dt} is a symbol of its own; the d's would cancel."""
        if not self.sees("{"):
            return None
        top = self.raw_group()
        if not self.sees("{"):
            return None
        bottom = self.raw_group()
        for d in ("d", "partial"):
            if len(top) > len(d) < len(bottom) and top.startswith(d) and bottom.startswith(d):
                return Symbol(f"{top}/{bottom}")
        return None

    def _root(self) -> Expr:
        degree: Expr = Integer(2)
        if self.sees("["):
            degree = self._group()
        radicand = self._group() if self.sees("(") else self._argument()
        if degree.is_zero:
            raise UnreadableError("there is no zeroth root")
        if degree.is_odd and radicand.is_extended_negative:
            return -power(-radicand, 1 / degree)  # the real root
        return power(radicand, 1 / degree)

    def _binomial(self) -> Expr:
        n = self._argument()
        return binomial(n, self._argument())

    def _floor(self) -> Expr:
        value = self.expression()
        self.expect("rfloor")
        return sympy.floor(value)

    def _ceiling(self) -> Expr:
        value = self.expression()
        self.expect("rceil")
        return sympy.ceiling(value)

    def _upright(self) -> Expr:
        r"""\mathrm{e} is e; a word is one symbol."""
        name = self.raw_group()
        return self._symbol(name) if name.isalpha() and name not in FUNCTIONS else self._named(name)

    def _named(self, name: str) -> Expr:
        if name in FUNCTIONS:
            return self._function(name)
        raise UnreadableError(f"{name!r} is no symbol")


_SPECIAL = {
    "frac": _Parser._fraction,
    "sqrt": _Parser._root,
    "binom": _Parser._binomial,
    "lfloor": _Parser._floor,
    "lceil": _Parser._ceiling,
    "mathrm": _Parser._upright,
}
"""Commands with a syntax of their own."""
