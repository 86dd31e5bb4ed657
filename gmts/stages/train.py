"""The train stage: reinforcement learning from the initial model."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gmts.config import SCHEMA_VERSION, STAGE_SECTIONS, ConfigError, Params, params_hash
from gmts.config.checks import ignored_switches
from gmts.files import new_folder, write_json
from gmts.stages.determinism import deterministic
from gmts.stages.preflight import check_backend
from gmts.stages.workspace import StageResult, Workspace, stage_run

if TYPE_CHECKING:
    from gmts.models.template import PromptTemplate
    from gmts.trainers.standalone.loop import RunPlan
    from gmts.trainers.standalone.rollouts import Questions
    from gmts.trainers.standalone.trainer import Trainer

logger = logging.getLogger(__name__)

StepWatcher = Callable[[int, int, str], None]
"""Takes the step, the number of steps and a line for people."""

_REPORTED = ("metrics.jsonl", "tensorboard", "dvclive", "rollouts")
"""What reports/train takes over from the run's live files."""


def train(params: Params, workspace: Workspace, watcher: StepWatcher | None = None) -> StageResult:
    """Write models/last, models/best and reports/train.

    `watcher`, if given, is called after each step and at the start with the step, the number of
    steps and a line for people.

    An interrupted run goes on from its newest checkpoint under work/train; with another parameter,
    other data, another initial model or other code it is another run.

    Raises:
        ValueError: If an input is missing, broken or not what was recorded of it, an own function
            cannot be used, a tracker's package is missing or another process trains this run;
            nothing has been done then.
        RewardError: If an own scorer fails.
        OSError: If an output cannot be written.
    """
    with stage_run("train", workspace) as run, deterministic(params.runtime):
        from gmts.trainers.standalone.checkpoint import exclusive, write_identity
        from gmts.trainers.standalone.fingerprint import fingerprint
        from gmts.trainers.standalone.loop import RunPlan, run_training
        from gmts.trainers.watch.tracking import check_trackers

        if ignored := ignored_switches(params):
            logger.warning(
                "selection.score none trains every token; ignored: %s", ", ".join(ignored)
            )
        check_backend(params)
        check_trackers(params.tracking)
        _check_writable(workspace)
        parts = _identity(params, workspace)
        trainer, template = _trainer(params, workspace)
        plan = RunPlan(
            folder=workspace.work_dir / "train" / fingerprint(parts),
            fingerprint=fingerprint(parts),
            train=params.train,
            tracking=params.tracking,
            settings=_settings(params),
            watcher=watcher,
        )
        with exclusive(plan.folder):
            write_identity(plan.folder, parts)
            run.values["resumed_from_step"] = run_training(trainer, plan)
            run.values |= _export(trainer, template, parts, plan, workspace)
    return run.result()


def _check_writable(workspace: Workspace) -> None:
    """Find out before hours of work, not after, whether outputs can be written."""
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


def _identity(params: Params, workspace: Workspace) -> dict[str, str]:
    """Check the inputs and return the hashes that make up the run's fingerprint."""
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


def _trainer(params: Params, workspace: Workspace) -> "tuple[Trainer, PromptTemplate]":
    from gmts.imports import load_function
    from gmts.models.folder import end_token_ids, load_model, load_tokenizer
    from gmts.models.initial import read_initial
    from gmts.models.template import PromptTemplate
    from gmts.trainers.standalone.trainer import Recipe, Trainer

    initial = read_initial(workspace.initial_dir)
    template = PromptTemplate.of(load_tokenizer(initial.path), params.model.template)
    if template.sha256 != initial.template_sha256:
        raise ValueError(
            f"the prompt template of {initial.path} must be the one that models/initial recorded "
            f"({initial.template_sha256}), got {template.sha256}: run the warmstart stage again"
        )
    questions = _questions(params, workspace, template, "train")
    validation = _questions(params, workspace, template, "validation")
    score = None
    if params.selection.custom is not None:
        score = load_function("selection.custom", str(params.selection.custom), 2)
    policy = load_model(initial.path, params.model.dtype, params.runtime.device)
    _check_lengths(params, questions, validation, policy)
    trainer = Trainer(
        policy,
        Recipe(
            seed=params.seed,
            rollout=params.rollout,
            objective=params.objective,
            selection=params.selection,
            train=params.train,
            custom_score=score,
        ),
        questions=questions,
        validation=validation,
        eos_ids=end_token_ids(policy, template.tokenizer),
    )
    return trainer, template


def _questions(
    params: Params, workspace: Workspace, template: "PromptTemplate", split: Any
) -> "Questions":
    from gmts.data.manifest import split_file
    from gmts.data.rows import read_rows
    from gmts.rewards.scorer import make_scorer
    from gmts.trainers.standalone.rollouts import Questions

    def decode(token_ids: Sequence[int], *, keep_special: bool = False) -> str:
        text: str = template.tokenizer.decode(token_ids, skip_special_tokens=not keep_special)
        return text

    rows = read_rows(split_file(workspace.prepared_dir, split))
    return Questions(
        rows=rows,
        prompts=[tuple(template.encode(row.messages)) for row in rows],
        decode=decode,
        decode_prompt=partial(decode, keep_special=True),
        scorer=make_scorer(params.rewards),
    )


def _check_lengths(
    params: Params, questions: "Questions", validation: "Questions", policy: Any
) -> None:
    longest = max(len(prompt) for split in (questions, validation) for prompt in split.prompts)
    room = getattr(policy.config, "max_position_embeddings", None)
    if room is not None and longest + params.rollout.max_response_tokens > room:
        raise ConfigError(
            f"rollout.max_response_tokens must be <= {room - longest}, got "
            f"{params.rollout.max_response_tokens}: the model has {room} positions and the longest "
            f"prompt takes {longest}"
        )


def _settings(params: Params) -> dict[str, Any]:
    sections = {name: getattr(params, name) for name in STAGE_SECTIONS["train"]}
    return {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in sections.items()
    }


def _export(
    trainer: "Trainer",
    template: "PromptTemplate",
    parts: Mapping[str, str],
    plan: "RunPlan",
    workspace: Workspace,
) -> dict[str, Any]:
    """Write models/last, models/best and reports/train; return the summary's scores."""
    from gmts.trainers.standalone.state import put_weights
    from gmts.trainers.watch.tracking import METRICS_FILE, read_metrics

    accuracy = {
        int(record["step"]): record["validation/accuracy"]
        for record in read_metrics(plan.live_dir / METRICS_FILE)
        if "validation/accuracy" in record
    }
    state = trainer.state
    assert state.best is not None
    models = {
        "initial": {"step": 0, "validation_accuracy": accuracy[0]},
        "last": {"step": state.step, "validation_accuracy": accuracy[state.step]},
        "best": {"step": state.best.step, "validation_accuracy": state.best.accuracy},
    }
    lineage = {
        "fingerprint": plan.fingerprint,
        "params_sha256": parts["params"],
        "data_sha256": parts["data"],
        "initial_weights_sha256": parts["initial_weights"],
        "code_sha256": parts["code"],
    }
    _save(trainer, template, models["last"] | lineage, workspace.last_dir)
    put_weights(trainer.policy, state.best.weights)
    _save(trainer, template, models["best"] | lineage, workspace.best_dir)
    with new_folder(workspace.train_dir) as folder:
        for source in (plan.live_dir / name for name in _REPORTED):
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
            elif source.exists():
                shutil.copy2(source, folder / source.name)
        counts = {
            "steps": state.step,
            "optimizer_steps": state.optimizer_steps,
            "no_signal_steps": state.no_signal_steps,
            "questions_drawn": state.draws,
        }
        write_json(
            folder / "summary.json", {"schema_version": SCHEMA_VERSION} | models | counts | lineage
        )
    return {f"{name}_validation_accuracy": m["validation_accuracy"] for name, m in models.items()}


def _save(
    trainer: "Trainer", template: "PromptTemplate", extra: Mapping[str, Any], target: Any
) -> None:
    from gmts.models.folder import save_model

    with new_folder(target) as folder:
        save_model(folder, trainer.policy, template.tokenizer, template, extra)
