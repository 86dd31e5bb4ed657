"""Where benchmarks lie and hold their questions, which training rows are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gmts.data.hub import fetch
from gmts.data.records import Record, field_text
from gmts.files import file_sha256

_QUESTION_FIELDS: dict[str, tuple[str, ...]] = {
    "aime24": ("problem",),
    "aime25": ("problem", "prompt"),
    "amc23": ("problem", "question"),
    "math500": ("problem",),
    "minerva": ("problem", "question"),
    "olympiadbench": ("question",),
    "csqa": ("question.stem", "question"),
    "csqa2": ("question",),
    "gsm8k": ("question",),
    "humaneval": ("prompt",),
    "mbpp": ("text", "prompt"),
    "livecodebench": ("question_content",),
    "bigcodebench": ("instruct_prompt", "complete_prompt"),
    "bigcodebench_hard": ("instruct_prompt", "complete_prompt"),
}
"""By name, the fields of the releases we know. Any other name: `question`."""

_INSTRUCTIONS = ("\nPlease reason step by step, and put your final answer within \\boxed{}.",)
"""Ends of a question that are not the question's."""


def benchmark_question(name: str, record: Record) -> str:
    """Return the question of a row of the benchmark `name`.

    Raises:
        BadRowError: If the row has no question.
    """
    text = field_text(record, *_QUESTION_FIELDS.get(name, ("question",)))
    for instruction in _INSTRUCTIONS:
        text = text.strip().removesuffix(instruction)
    return text


_HUB: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "aime24": ("HuggingFaceH4/aime_2024", ("data/train-*.parquet",)),
    "aime25": ("math-ai/aime25", ("*.jsonl", "*.parquet")),
    "amc23": ("math-ai/amc23", ("*.jsonl", "*.parquet")),
    "math500": ("HuggingFaceH4/MATH-500", ("test.jsonl",)),
    "minerva": ("math-ai/minervamath", ("*.jsonl", "*.parquet")),
    "olympiadbench": (
        "Hothan/OlympiadBench",
        (
            "OlympiadBench_Dataset/data/OE_TO_maths_en_COMP*",
            "OE_TO_maths_en_COMP/*.parquet",
        ),
    ),
    "csqa": ("tau/commonsense_qa", ("data/validation-*.parquet",)),
    "csqa2": ("tasksource/commonsense_qa_2.0", ("*validation*", "*dev*.json*")),
    "humaneval": (None, ("HumanEvalPlus*.jsonl*",)),
    "mbpp": (None, ("MbppPlus*.jsonl*",)),
    "livecodebench": (
        "livecodebench/code_generation_lite",
        ("test.jsonl", "test[2-5].jsonl"),  # release_v5
    ),
    "bigcodebench": ("bigcode/bigcodebench", ("data/v0.1.4-*.parquet",)),
    "bigcodebench_hard": ("bigcode/bigcodebench-hard", ("data/v0.1.4-*.parquet",)),
}
"""Id on the Hub, None where no repository is known that has the files; patterns of the files."""


class Entry(Protocol):
    """An entry of `benchmarks` in params.yaml, as far as its files go."""

    @property
    def path(self) -> str | None:
        """A local file."""

    @property
    def repo(self) -> str | None:
        """Another repository than ours."""

    @property
    def revision(self) -> str | None:
        """A commit."""

    @property
    def files(self) -> Sequence[str] | None:
        """Other patterns than ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFiles:
    """Files of a benchmark that scores are given on."""

    paths: Mapping[str, Path]
    """By the names that params.yaml or the Hub has for them."""
    hub: Mapping[str, str] | None
    """repo and revision; None for local files."""

    def sha256(self) -> dict[str, str]:
        """Return the hash of every file, by its name."""
        return {name: file_sha256(path) for name, path in self.paths.items()}


def files_of(name: str, entry: Entry, root: Path) -> BenchmarkFiles:
    """Return where a benchmark's rows lie, after fetching them if they are on the Hub.

    Args:
        name: A key of `benchmarks` in params.yaml.
        entry: What is there.
        root: What a relative path is relative to.

    Raises:
        ValueError: If the folder or the Hub has no such files, or no repository is known.
        OSError: If the Hub cannot be reached.
    """
    (known, patterns), key = _HUB[name], f"benchmarks.{name}"
    if entry.path is not None:
        return BenchmarkFiles(paths=_local_files(entry.path, root, patterns, key), hub=None)
    repo = entry.repo or known
    if repo is None:
        raise ValueError(
            f"{key}.repo must name a repository that has {', '.join(patterns)}, got null: none is "
            "known; docs/evaluation.md says where the files are from"
        )
    revision = str(entry.revision)
    return BenchmarkFiles(
        paths=fetch(repo, revision, entry.files or patterns, key=key),
        hub={"repo": repo, "revision": revision},
    )


def _local_files(name: str, root: Path, patterns: Sequence[str], key: str) -> dict[str, Path]:
    """Return the file, or those of a folder that have the names of the benchmark's."""
    path = root / name
    if not path.is_dir():
        return {name: path}
    found = sorted(file for pattern in patterns for file in path.glob(pattern))
    if not found:
        raise ValueError(f"{key}.path must have files like {', '.join(patterns)}, got {name}")
    return {str(Path(name, file.relative_to(path))): file for file in found}
