"""From a source to a prepared folder: splits, tokenizer, manifest."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gmts.data.config import DataConfig
from gmts.data.contamination import read_questions
from gmts.data.manifest import MANIFEST, TOKENIZER_DIR, build_manifest, split_file
from gmts.data.questions import SPLITS
from gmts.data.rows import Message, write_rows
from gmts.data.sets.benchmarks import BenchmarkFiles
from gmts.data.solutions import worked_solution
from gmts.data.sources import make_source
from gmts.data.splits import SplitRows, draw_splits
from gmts.files import write_json
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.config import ModelConfig
from gmts.models.folder import check_folder, load_tokenizer
from gmts.models.identity import settings_sha256
from gmts.models.template import PromptTemplate

CONTAMINATION = "contamination.json"

_TOKENIZER_ROWS = 2000


def prepare_data(
    folder: Path,
    config: DataConfig,
    model: ModelConfig,
    *,
    root: Path,
    benchmarks: Mapping[str, BenchmarkFiles] | None = None,
) -> dict[str, Any]:
    """Fill the existing, empty `folder` with the three splits and return their manifest.

    With `model.path` prompt lengths are counted under that model's tokenizer. Without, a tokenizer
    is trained on the training rows, and the rows are filtered under it.

    Args:
        folder: Usually the temporary folder of `gmts.files.new_folder`.
        config: The `data` section.
        model: The `model` section.
        root: What relative paths in params.yaml are relative to.
        benchmarks: By name, besides data.decontaminate; rows of files must not hold their
            questions.

    Raises:
        ValueError: If a setting, a file or a row is not valid, or a split ends up empty.
    """
    held = [
        read_questions(name, files.paths, f"benchmarks.{name}")
        for name, files in (benchmarks or {}).items()
    ]
    source = make_source(config, root, held)
    scored = {
        name: {"files": files.sha256(), "hub": files.hub}
        for name, files in (benchmarks or {}).items()
    }
    solve = functools.partial(worked_solution, slip_probability=0.0, rng=random.Random(0))
    if model.path is None:
        template = _built_template(
            folder, draw_splits(config, source, count_tokens=None, solve=solve), config, model
        )
        facts: dict[str, Any] = {}
    else:
        path = root / model.path
        check_folder(path)
        template = PromptTemplate.of(load_tokenizer(path), model.template)
        facts = {"model": {"path": model.path, "settings_sha256": settings_sha256(path)}}
    if scored:
        facts["benchmarks"] = scored
    splits = draw_splits(config, source, count_tokens=_counter(template), solve=solve)
    for split in SPLITS:
        write_rows(split_file(folder, split), splits[split].rows)
    if source.contamination is not None:
        write_json(folder / CONTAMINATION, source.contamination)
    manifest = build_manifest(folder, config, splits, template.sha256, {**source.facts, **facts})
    if any(manifest["overlap"].values()):
        raise AssertionError(f"splits overlap: {manifest['overlap']}")
    write_json(folder / MANIFEST, manifest)
    return manifest


def _built_template(
    folder: Path, splits: Mapping[Any, SplitRows], config: DataConfig, model: ModelConfig
) -> PromptTemplate:
    rows = splits["train"].rows[:_TOKENIZER_ROWS]
    texts = [
        "\n".join(
            [*(message["content"] for message in row.messages), row.solution or row.ground_truth]
        )
        for row in rows
    ]
    tokenizer = build_tokenizer(texts, config.vocabulary_size)
    tokenizer.save_pretrained(folder / TOKENIZER_DIR)
    return PromptTemplate.of(tokenizer, model.template)


def _counter(template: PromptTemplate) -> Callable[[Sequence[Message]], int]:
    return lambda messages: len(template.encode(messages))
