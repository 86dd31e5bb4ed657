"""The warmstart stage: the model that training starts from."""

import logging
import os
from pathlib import Path

from gmts.config import ConfigError, Params
from gmts.files import new_folder
from gmts.stages.determinism import deterministic
from gmts.stages.workspace import StageResult, Workspace, stage_run

logger = logging.getLogger(__name__)


def warmstart(params: Params, workspace: Workspace) -> StageResult:
    """Build and teach a tiny model in models/initial, or record the identity of model.path there.

    Raises:
        ValueError: If model.path is not a usable model folder, or the prepared data is broken.
        OSError: If models/initial cannot be written.
    """
    with stage_run("warmstart", workspace) as run, new_folder(workspace.initial_dir) as folder:
        if params.model.path is None:
            run.values["loss"] = _build(params, workspace, folder)
        else:
            run.values["weights_sha256"] = _identify(params, workspace, folder)
    return run.result()


def _build(params: Params, workspace: Workspace, folder: Path) -> float:
    import torch

    from gmts.data.manifest import TOKENIZER_DIR, check_split
    from gmts.data.rows import read_rows
    from gmts.models.folder import load_tokenizer, save_model
    from gmts.models.identity import settings_sha256
    from gmts.models.initial import InitialModel, write_initial
    from gmts.models.template import PromptTemplate
    from gmts.trainers.warmstart.model import build_model
    from gmts.trainers.warmstart.teach import teach

    rows = read_rows(check_split(workspace.prepared_dir, "train"))
    tokenizer = load_tokenizer(workspace.prepared_dir / TOKENIZER_DIR)
    template = PromptTemplate.of(tokenizer, params.model.template)
    model = build_model(params.warmstart, tokenizer, params.seed)
    logger.info("warm start of %d parameters", sum(p.numel() for p in model.parameters()))
    with deterministic(params.runtime):
        loss = teach(model, template, rows, params.warmstart, seed=params.seed)
    sha256 = save_model(
        folder,
        model.to(getattr(torch, params.model.dtype)),
        tokenizer,
        template,
        {"step": 0, "loss": loss},
    )
    write_initial(
        folder,
        InitialModel(
            path=Path(),
            weights_sha256=sha256,
            settings_sha256=settings_sha256(folder),
            template_kind=template.kind,
            template_sha256=template.sha256,
            built=True,
        ),
    )
    return loss


def _identify(params: Params, workspace: Workspace, folder: Path) -> str:
    from gmts.models.folder import check_folder, load_tokenizer
    from gmts.models.identity import settings_sha256, weights_sha256
    from gmts.models.initial import InitialModel, write_initial
    from gmts.models.template import PromptTemplate

    path = workspace.given_model(str(params.model.path))
    check_folder(path)
    try:
        template = PromptTemplate.of(load_tokenizer(path), params.model.template)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    given = Path(str(params.model.path))
    initial = InitialModel(
        path=given if given.is_absolute() else _from(workspace.initial_dir, path),
        weights_sha256=weights_sha256(path),
        settings_sha256=settings_sha256(path),
        template_kind=template.kind,
        template_sha256=template.sha256,
        built=False,
    )
    write_initial(folder, initial)
    return initial.weights_sha256


def _from(folder: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, folder.resolve()))
