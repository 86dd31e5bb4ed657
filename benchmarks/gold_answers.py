r"""Judge the gold answers of benchmarks as responses, and answers that must be wrong.

    python benchmarks/gold_answers.py [FOLDER]

FOLDER holds the benchmarks' files (default: ../shared/data, or GMTS_SHARED). For every row the gold
answer must be right, also as \frac{2 (answer)}{2} where it is a formula; the gold of other rows
must be wrong unless EQUAL lists the pair; gold answers that were changed mechanically must be
wrong: another sign, another digit, a swapped pair, another option. Prints a table and ends with 1
if a rule is broken. Seeds and clocks play no part.
"""

import gzip
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gmts.rewards.config import PoolConfig
from gmts.rewards.extract import last_boxed
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool

MINERVA_REL_TOL = 0.01
"""Minerva's answers are measured or rounded numbers."""
MAX_EXCLUDED = 0.01
OFFSETS = (1, 7)
"""Rows further on whose gold is tried as a response."""

EXCLUDED: dict[str, dict[str, str]] = {
    "olympiadbench": {
        "2045": "the gold t(0,4] is a misprint",
        "1965": "the gold is a sentence",
    },
}
"""By set, rows that are not judged, each with its reason."""

EQUAL: dict[str, set[tuple[str, str]]] = {
    "math500": {("5", "x=5")},
    "minerva": {("928", "927.5")},  # within its tolerance
}
"""By set, pairs (gold, other row's gold) that are written otherwise and equal."""

WORKERS = PoolConfig(workers=2, deadline_s=4.0, memory_mib=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A row's right answer."""

    id: str
    answer: str
    meta: dict[str, Any]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from map(json.loads, file)


def _answers(path: Path) -> list[Gold]:
    rows = enumerate(_lines(path))
    return [
        Gold(id=str(row.get("unique_id", row.get("id", n))), answer=str(row["answer"]), meta={})
        for n, row in rows
    ]


def _minerva(path: Path) -> list[Gold]:
    return [
        Gold(
            id=str(row["idx"]),
            answer=str(last_boxed(row["solution"])),
            meta={"rel_tol": MINERVA_REL_TOL},
        )
        for row in _lines(path)
    ]


def _olympiadbench(path: Path) -> list[Gold]:
    return [
        Gold(id=str(row["id"]), answer=", ".join(row["final_answer"]), meta={})
        for row in _lines(path)
    ]


def _csqa(path: Path) -> list[Gold]:
    return [
        Gold(
            id=row["id"],
            answer=row["answerKey"],
            meta={"choices": {c["label"]: c["text"] for c in row["question"]["choices"]}},
        )
        for row in _lines(path)
    ]


SETS: dict[str, tuple[str, str, Callable[[Path], list[Gold]]]] = {
    "math500": ("math", "math500/test.jsonl", _answers),
    "aime24": ("math", "aime24/test.jsonl", _answers),
    "aime25": ("math", "aime25/aime25.jsonl", _answers),
    "amc23": ("math", "amc23/test.jsonl", _answers),
    "minerva": ("math", "minerva_math/test.jsonl", _minerva),
    "olympiadbench": ("math", "olympiadbench/test.jsonl", _olympiadbench),
    "csqa": ("choice", "csqa/dev_rand_split.jsonl", _csqa),
    "csqa2": ("choice", "csqa2/CSQA2_dev.json.gz", _answers),
}
"""Name -> (kind, file, reader)."""


def rewritten(gold: Gold) -> str | None:
    """Return an equal formula that no comparison of texts finds equal; None if it is none."""
    if _NO_FORMULA.search(gold.answer.strip().strip("$")) or "$" in gold.answer.strip()[1:-1]:
        return None
    return rf"\frac{{2 \left({gold.answer.strip().strip('$')}\right)}}{{2}}"


_NO_FORMULA = re.compile(
    r"[,=<>%:]|\\(?:text|mbox|in|pm|cup|begin|le|ge|geqslant)(?![A-Za-z])|\\circ|\\\$"
    r"|(?<![\\A-Za-z{_])[A-Za-z]{4,}"
)


def sign(gold: Gold) -> str | None:
    """Return the answer with another sign in front; None where that makes no other answer."""
    text = gold.answer.strip().strip("$").strip()
    if "=" in text or "pm" in text or not re.match(r"-|\d|\.\d|\\frac|\\sqrt|\\\$\d", text):
        return None
    if re.match(r"-?0(?![.\d])", text) or ":" in text:
        return None
    return text[1:] if text.startswith("-") else f"-{text}"


def digit(gold: Gold) -> str | None:
    """Return the answer with its first digit that is not 0 changed; None if it has none."""
    match = re.search("[1-9]", gold.answer)
    if match is None:
        return None
    other = int(match.group()) % 9 + 1
    return f"{gold.answer[: match.start()]}{other}{gold.answer[match.end() :]}"


def swap(gold: Gold) -> str | None:
    """Return an ordered pair the other way round; None if the answer is none."""
    text = gold.answer.strip().strip("$")
    match = re.fullmatch(r"(\\left)?\(([^(),]+),([^(),]+)(\\right)?\)", text)
    if match is None or match.group(2).strip() == match.group(3).strip():
        return None
    return f"({match.group(3)},{match.group(2)})"


def other_option(gold: Gold) -> str | None:
    """Return another option."""
    options = list(gold.meta.get("choices") or ("yes", "no"))
    return options[(options.index(gold.answer) + 1) % len(options)]


CHANGES: dict[str, dict[str, Callable[[Gold], str | None]]] = {
    "math": {"sign": sign, "digit": digit, "swapped": swap},
    "choice": {"option": other_option},
}


def trials(name: str, golds: list[Gold], kind: str) -> Iterator[tuple[str, Gold, str, bool]]:
    """Yield (what is tried, gold, answer, expected verdict)."""
    for number, gold in enumerate(golds):
        yield "gold", gold, gold.answer, True
        if kind == "math" and (answer := rewritten(gold)) is not None:
            yield "rewritten", gold, answer, True
        for offset in OFFSETS:
            other = golds[(number + offset) % len(golds)].answer
            if other != gold.answer:
                yield "others", gold, other, (gold.answer, other) in EQUAL.get(name, set())
        for change, function in CHANGES[kind].items():
            if (answer := function(gold)) is not None:
                yield change, gold, answer, False


def judge_set(name: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return the table's cells and what broke a rule."""
    kind, file, reader = SETS[name]
    rows = reader(folder / file)
    excluded = EXCLUDED.get(name, {})
    golds = [gold for gold in rows if gold.id not in excluded]
    tried = list(trials(name, golds, kind))
    jobs = [
        Job(
            id=f"{name} {gold.id} {what}",
            response=rf"The answer is $\boxed{{{answer}}}$.",
            ground_truth=gold.answer,
            meta=gold.meta,
        )
        for what, gold, answer, _ in tried
    ]
    with RewardPool(kind, WORKERS) as pool:
        verdicts = pool.score_all(jobs)
    total, good, broken = Counter[str](), Counter[str](), list[str]()
    for (what, gold, answer, expected), verdict in zip(tried, verdicts, strict=True):
        total[what] += 1
        if verdict.correct == expected:
            good[what] += 1
        else:
            broken.append(
                f"{name} {gold.id} {what}: {answer!r} for {gold.answer!r} is {verdict.reason}"
            )
    if len(excluded) > MAX_EXCLUDED * len(rows):
        broken.append(f"{name}: {len(excluded)} of {len(rows)} rows are excluded, over 1%")
    cells = {what: f"{good[what]}/{total[what]}" for what in total}
    slowest = max(verdict.seconds for verdict in verdicts)
    return {"rows": str(len(rows)), "excluded": str(len(excluded))} | cells | {
        "slowest": f"{slowest:.2f} s"
    }, broken


def main() -> None:
    """Print the table; end with 1 if a rule is broken."""
    shared = Path(os.environ.get("GMTS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else shared / "data"
    columns = (
        "rows", "excluded", "gold", "rewritten", "others", "sign", "digit", "swapped", "option",
        "slowest",
    )  # fmt: skip
    table = Table("set", *columns, title="verdicts as they must be / tried")
    broken = []
    for name in SETS:
        cells, found = judge_set(name, folder)
        table.add_row(name, *(cells.get(column, "-") for column in columns))
        broken += found
    Console(width=130).print(table)
    for line in broken:
        print(line)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
