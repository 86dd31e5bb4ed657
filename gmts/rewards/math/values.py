"""What an answer can be, once read."""

from dataclasses import dataclass
from typing import Literal

from sympy import Expr

Kind = Literal["list", "set", "()", "[]", "(]", "[)"]
"""Of several values: lists and sets have no order, bracketed ones have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number or a formula, with its unit."""

    value: Expr
    unit: str = ""
    """Empty if none is written."""
    source: str = ""
    """The text that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Text, or what could not be read as anything else."""

    text: str
    """Without wrappers, marks and case."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day, or a ratio such as 3:2."""

    parts: tuple[str, ...]
    suffix: str
    """What follows: am, pm, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """Several values."""

    kind: Kind
    items: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of values."""

    rows: "tuple[tuple[Value, ...], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A value with the name that it is given: x = 5, f(x) = 2x."""

    label: Expr | str
    value: "Value"
    difference: Expr | None
    """Left side less right side, if both are formulas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """An equation with a formula on either side."""

    difference: Expr
    """Left side less right side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """An inequality that is no set of numbers: difference > 0 or >= 0."""

    difference: Expr
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A set of real numbers that changes at finitely many points."""

    points: tuple[Expr, ...]
    """Where membership changes, rising."""
    inside: tuple[bool, ...]
    """Membership below the first point, at it, between it and the second, at the second, ..."""
    variable: str = ""
    """The letter of an inequality; empty if none is written."""


Value = Quantity | Words | Clock | Several | Matrix | Labelled | Equation | Relation | Region
