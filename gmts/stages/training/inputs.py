"""What training reads, checked before any work, and the identity that follows from it."""

import os
import sys
import tempfile
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from gmts.config import STAGE_SECTIONS, ConfigError, Params, params_hash
from gmts.stages.workspace import Workspace

if TYPE_CHECKING:
    from gmts.models.template import PromptTemplate


def check_writable(workspace: Workspace) -> None:
    """Find out before hours of work, not after, whether outputs can be written.

    Raises:
        ConfigError: If a folder cannot be written.
    """
    for folder in (workspace.last_dir, workspace.best_dir, workspace.train_dir, workspace.work_dir):
        parent = folder.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            handle, probe = tempfile.mkstemp(dir=parent, prefix=".probe.")
        except OSError as error:
            raise ConfigError(
                f"{parent} must be a folder that can be written, got: {error.strerror}"
            ) from error
        os.close(handle)
        os.unlink(probe)


def run_identity(params: Params, workspace: Workspace) -> dict[str, str]:
    """Check the inputs and return the hashes that make up the run's fingerprint.

    Raises:
        ValueError: If an input is missing, broken or not what was recorded of it.
    """
    from gmts.data.manifest import check_split, read_manifest
    from gmts.files import file_sha256
    from gmts.models.folder import check_folder
    from gmts.models.identity import settings_sha256, weights_sha256
    from gmts.models.initial import read_initial
    from gmts.trainers.standalone.fingerprint import (
        code_sha256,
        custom_sha256,
        library_versions,
    )

    initial = read_initial(workspace.initial_dir)
    check_folder(initial.path)
    weights = weights_sha256(initial.path)
    if weights != initial.weights_sha256:
        raise ValueError(
            f"{initial.path} must hold the weights that models/initial recorded "
            f"({initial.weights_sha256}), got {weights}: run the warmstart stage again"
        )
    return {
        "params": params_hash(params, STAGE_SECTIONS["train"]),
        "train_rows": file_sha256(check_split(workspace.prepared_dir, "train")),
        "validation_rows": file_sha256(check_split(workspace.prepared_dir, "validation")),
        "data": read_manifest(workspace.prepared_dir)["rows_sha256"],
        "initial_weights": weights,
        "initial_files": settings_sha256(initial.path),
        "template": initial.template_sha256,
        "code": code_sha256(),
        "own_reward": custom_sha256(params.rewards.custom),
        "own_score": custom_sha256(params.selection.custom),
        "libraries": library_versions(),
    }


def initial_template(params: Params, workspace: Workspace) -> "PromptTemplate":
    """Return the prompt template of the initial model.

    Raises:
        ValueError: If it is not the one that models/initial recorded.
    """
    from gmts.models.folder import load_tokenizer
    from gmts.models.initial import read_initial
    from gmts.models.template import PromptTemplate

    initial = read_initial(workspace.initial_dir)
    template = PromptTemplate.of(load_tokenizer(initial.path), params.model.template)
    if template.sha256 != initial.template_sha256:
        raise ValueError(
            f"the prompt template of {initial.path} must be the one that models/initial recorded "
            f"({initial.template_sha256}), got {template.sha256}: run the warmstart stage again"
        )
    return template


def check_lengths(params: Params, longest: int, config: Any) -> None:
    """Refuse responses for which the model has no positions.

    Args:
        params: With the response limit.
        longest: Tokens of the longest prompt.
        config: The model's, of transformers.

    Raises:
        ConfigError: If prompt and response may not fit.
    """
    room = getattr(config, "max_position_embeddings", None)
    if room is not None and longest + params.rollout.max_response_tokens > room:
        raise ConfigError(
            f"rollout.max_response_tokens must be <= {room - longest}, got "
            f"{params.rollout.max_response_tokens}: the model has {room} positions and the longest "
            f"prompt takes {longest}"
        )


def training_settings(params: Params) -> dict[str, Any]:
    """Return the sections that training reads as plain values, for trackers that show them."""
    sections = {name: getattr(params, name) for name in STAGE_SECTIONS["train"]}
    return {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in sections.items()
    }


def train_python(params: Params) -> str:
    """Return the interpreter that runs verl: runtime.train_python, GMTS_TRAIN_PYTHON, or ours."""
    return params.runtime.train_python or os.environ.get("GMTS_TRAIN_PYTHON") or sys.executable
