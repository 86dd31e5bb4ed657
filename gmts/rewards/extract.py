r"""Finding the answer in a response."""

from collections.abc import Callable

_BOX = "\\boxed{"


def last_boxed(response: str) -> str | None:
    r"""Return the contents of the last balanced \boxed{...}, stripped; None if there is none."""
    end = len(response)
    while (start := response.rfind(_BOX, 0, end)) >= 0:
        depth = 1
        for position in range(start + len(_BOX), len(response)):
            depth += {"{": 1, "}": -1}.get(response[position], 0)
            if depth == 0:
                return response[start + len(_BOX) : position].strip()
        end = start
    return None


def first_line(response: str) -> str | None:
    """Return the first line, stripped; None if it is empty."""
    return response.partition("\n")[0].strip() or None


EXTRACTORS: dict[str, Callable[[str], str | None]] = {
    "boxed": last_boxed,
    "first_line": first_line,
}
"""By the values of rewards.answer."""
