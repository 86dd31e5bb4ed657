r"""Tokens of a formula in normalised LaTeX, with bounds on how many and how deep."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_TOKENS = 800
MAX_DEPTH = 60


class UnreadableError(ValueError):
    """The text is no formula that we can read."""


class TooLargeError(UnreadableError):
    """The formula is larger than what is judged, or a number in it would be."""


class BeyondError(UnreadableError):
    """The formula uses notation that is left to latex2sympy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A part of a formula."""

    kind: str
    """number, command, letter, word, or the character itself."""
    text: str


WORDS = (
    "arcsin", "arccos", "arctan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sqrt", "sin",
    "cos", "tan", "cot", "sec", "csc", "log", "ln", "lg", "exp", "pi", "inf",
)  # fmt: skip
"""Words that mean something without a backslash, longer ones before those that they start with."""

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d*\.\d*\\overline\s*\{\d+\}|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?"
    r"|\d+(?:[eE]-?\d+)?)"
    r"|\\(?P<command>[A-Za-z]+)"
    rf"|(?:np\.|math\.)?(?P<word>{'|'.join(WORDS)})(?![a-z])"
    r"|(?P<letter>[A-Za-z])"
    r"|(?P<sign>\\[{}|%$]|\*\*|[-+*/^_(){}\[\]|!',=<>:&])"
)


def tokenise(text: str) -> list[Token]:
    """Return the tokens of `text`.

    Raises:
        TooLargeError: If there are more than MAX_TOKENS, or groups lie deeper than MAX_DEPTH.
        UnreadableError: If a character is no part of a formula.
    """
    tokens: list[Token] = []
    position = depth = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableError(f"{text[position]!r} is no part of a formula")
        position = match.end()
        kind = match.lastgroup
        if kind == "space":
            continue
        assert kind is not None
        token = match.group(kind)
        if kind == "sign":
            kind = token = "^" if token == "**" else token
            depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(token, 0)
        tokens.append(Token(kind=kind, text=token))
        if depth > MAX_DEPTH or len(tokens) > MAX_TOKENS:
            raise TooLargeError(
                f"a formula may have {MAX_TOKENS} parts and groups {MAX_DEPTH} deep, got more"
            )
    return tokens


class Cursor:
    """A place among tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = list(tokens)
        self.place = 0

    @property
    def next(self) -> Token | None:
        """The token at the place; None at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def peek(self) -> str:
        """Return the text of the next token, empty at the end."""
        return "" if self.next is None else self.next.text

    def sees(self, kind: str, text: str = "") -> bool:
        """Whether the next token is of this kind, and of this text if one is given."""
        token = self.next
        return token is not None and token.kind == kind and (not text or token.text == text)

    def take(self) -> Token:
        """Return the next token and move on.

        Raises:
            UnreadableError: At the end.
        """
        token = self.next
        if token is None:
            raise UnreadableError("the formula ends too early")
        self.place += 1
        return token

    def expect(self, text: str) -> None:
        """Move on over a token of this text.

        Raises:
            UnreadableError: If another follows.
        """
        token = self.take()
        if token.text != text:
            raise UnreadableError(f"{text!r} must follow, got {token.text!r}")

    def raw_group(self) -> str:
        """Move over a group or a token, and return its text without braces and wrappers."""
        if not self.sees("{"):
            return self.take().text
        depth, parts = 0, list[str]()
        while True:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if token.text not in ("{", "}", "text", "mathrm"):
                parts.append(token.text)
            if depth == 0:
                return "".join(parts)

    def takes_degree(self) -> bool:
        """Take a degree sign, if one follows ^."""
        for shape in (("circ",), ("{", "circ", "}")):
            texts = tuple(t.text for t in self.tokens[self.place : self.place + len(shape)])
            if texts == shape:
                self.place += len(shape)
                return True
        return False

    def subscript(self) -> str:
        """Take _ and what stands below the line; return it without braces."""
        self.expect("_")
        return self.raw_group()

    def primes(self) -> str:
        r"""Take primes, written ' or ^{\prime}, and return as many '."""
        count = 0
        while True:
            rest = [t.text for t in self.tokens[self.place : self.place + 3]]
            if rest[:1] == ["'"]:
                self.place, count = self.place + 1, count + 1
            elif rest[:2] == ["^", "prime"]:
                self.place, count = self.place + 2, count + 1
            elif rest == ["^", "{", "prime"]:
                self.place += 2
                while self.sees("command", "prime"):
                    self.take()
                    count += 1
                self.expect("}")
            else:
                return "'" * count
