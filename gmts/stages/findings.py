"""What the checks of a plan say."""

from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Facts, what stands in the way, what is not there yet, and what should be known."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    """Name and value, as shown."""
    problems: list[str] = field(default_factory=list)
    """A run would be refused or would fail."""
    missing: list[str] = field(default_factory=list)
    """Inputs that are not there, and so could not be checked."""
    notes: list[str] = field(default_factory=list)

    def __add__(self, other: Self) -> Self:
        """Return the findings of both, in order."""
        return type(self)(
            lines=self.lines + other.lines,
            problems=self.problems + other.problems,
            missing=self.missing + other.missing,
            notes=self.notes + other.notes,
        )
