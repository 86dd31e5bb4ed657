"""Local model folders: checking, loading and saving them."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from gmts.files import read_json, write_json
from gmts.models.card import CARD, CARD_VERSION
from gmts.models.identity import weights_sha256
from gmts.models.template import PromptTemplate

logger = logging.getLogger(__name__)

_NAMED_WEIGHTS = 3
"""Weights that an error message lists."""
Dtype = Literal["float32", "bfloat16"]


def check_folder(path: Path) -> None:
    """Refuse what is not the folder of a causal language model, before anything heavy is loaded.

    Reads config.json and the headers of the weight files; no code from the folder is run.

    Raises:
        ValueError: If the folder, its config.json, its tokenizer or its weights are missing or
            damaged, or transformers knows no causal language model of its type.
    """
    if not path.is_dir():
        raise ValueError(
            f"model.path must be a folder with a Hugging Face causal LM, got {path}: there is no "
            "such folder (gmts loads local folders only and never asks a hub)"
        )
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} must hold config.json: it is not a Hugging Face model folder")
    if not any((path / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise ValueError(f"{path} must hold a tokenizer (tokenizer.json)")
    _check_type(path)
    for file in _weight_files(path):
        _check_header(file)


def _check_type(path: Path) -> None:
    file = path / "config.json"
    config = read_json(file)
    found = config.get("model_type") if isinstance(config, dict) else None
    if found not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(
            f"{file}: model_type must be a causal language model of transformers "
            f"{transformers.__version__}, got {found!r} (code that comes with a model is never run)"
        )


def _weight_files(path: Path) -> list[Path]:
    """Return the files that transformers reads the weights from; they need not exist."""
    single, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ValueError(
            f"{path} must hold its weights as safetensors (model.safetensors, or several files and "
            "model.safetensors.index.json); convert them with "
            "`AutoModelForCausalLM.from_pretrained(...).save_pretrained(...)`"
        )
    tree = read_json(index)
    shards = tree.get("weight_map") if isinstance(tree, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise ValueError(f"{index} must hold weight_map, the file of every weight")
    return [path / name for name in sorted(set(shards.values()))]


def _check_header(file: Path) -> None:
    try:
        with safe_open(file, framework="pt"):
            pass
    except FileNotFoundError as error:
        raise ValueError(
            f"{file} must exist: model.safetensors.index.json names it, and there is no such file"
        ) from error
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{file} must be a complete safetensors file: {error}") from error


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer in a local folder.

    Raises:
        ValueError: If the folder holds no tokenizer that can be read.
    """
    if not path.is_dir():
        raise ValueError(f"{path} must be a folder with a tokenizer: there is no such folder")
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the tokenizer in {path} cannot be read: {error}") from error


def load_model(path: Path, dtype: Dtype, device: str) -> Any:
    """Return the causal language model in a local folder, in evaluation mode.

    Args:
        path: The folder.
        dtype: Dtype of its weights in memory.
        device: A torch device.

    Raises:
        ValueError: If the folder holds no causal language model that can be read, or not all of its
            weights: transformers would draw what is missing at random.
    """
    check_folder(path)
    try:
        with _quiet():
            model, report = AutoModelForCausalLM.from_pretrained(
                path,
                local_files_only=True,
                trust_remote_code=False,
                dtype=getattr(torch, dtype),
                attn_implementation="sdpa",
                ignore_mismatched_sizes=True,  # reported below, by name
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(f"the model in {path} cannot be read: {error}") from error
    _check_all_loaded(path, report)
    return model.to(device).eval()


def _check_all_loaded(path: Path, report: Mapping[str, Any]) -> None:
    other_shape = [entry[0] for entry in report["mismatched_keys"]]
    for fault, names in (("lacks", report["missing_keys"]), ("has other shapes for", other_shape)):
        if names:
            first = ", ".join(sorted(names)[:_NAMED_WEIGHTS])
            raise ValueError(
                f"the weights in {path} must be all those of its config.json; the folder {fault} "
                f"{len(names)} of them: {first}{', ...' if len(names) > _NAMED_WEIGHTS else ''}"
            )


def save_model(
    folder: Path,
    model: Any,
    tokenizer: Any,
    template: PromptTemplate,
    extra: Mapping[str, Any],
) -> str:
    """Fill the existing, empty `folder` with a loadable model, and return its weights' sha256.

    Args:
        folder: Usually the temporary folder of `gmts.files.new_folder`.
        model: The policy; saved as safetensors in its own dtype, with its generation config.
        tokenizer: Saved with its chat template.
        template: Recorded, so that evaluation can insist on the same prompts.
        extra: Recorded in gmts.json under `extra`.
    """
    with _quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors come out for their owner alone
    sha256 = weights_sha256(folder)
    write_json(
        folder / CARD,
        {
            "schema_version": CARD_VERSION,
            "template_kind": template.kind,
            "template_sha256": template.sha256,
            "dtype": str(model.dtype).removeprefix("torch."),
            "weights_sha256": sha256,
            "extra": dict(extra),
        },
    )
    return sha256


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' own progress bars off the terminal: they last an instant."""
    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()


def end_token_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids that end a response: the generation config's, and the tokenizer's.

    Raises:
        ValueError: If there is none.
    """
    configured = getattr(model.generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    found = dict.fromkeys(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)
    if not found:
        raise ValueError("the model must have an end-of-sequence token, got none")
    return tuple(found)
