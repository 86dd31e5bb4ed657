"""Training with the standalone trainer, in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from gmts.config import Params
from gmts.data.manifest import split_file
from gmts.data.questions import Split
from gmts.data.rows import read_rows
from gmts.imports import load_function
from gmts.models.folder import end_token_ids, load_model
from gmts.models.initial import read_initial
from gmts.models.template import PromptTemplate
from gmts.rewards.scorer import make_scorer
from gmts.stages.training.inputs import check_lengths, initial_template, training_settings
from gmts.stages.training.outputs import (
    Point,
    Points,
    lineage_of,
    save_policy,
    validated,
    write_report,
)
from gmts.stages.workspace import StepWatcher, Workspace
from gmts.trainers.standalone.checkpoint import exclusive, write_identity
from gmts.trainers.standalone.fingerprint import fingerprint
from gmts.trainers.standalone.loop import RunPlan, run_training
from gmts.trainers.standalone.rollouts import Questions
from gmts.trainers.standalone.state import put_weights
from gmts.trainers.standalone.trainer import Recipe, Trainer


def train_here(
    params: Params, workspace: Workspace, parts: Mapping[str, str], watcher: StepWatcher | None
) -> dict[str, Any]:
    """Train and write the outputs; return values for the stage's result.

    Args:
        params: The experiment.
        workspace: The clone.
        parts: The run's identity.
        watcher: See `gmts.stages.train.train`.
    """
    template = initial_template(params, workspace)
    trainer = _trainer(params, workspace, template)
    plan = RunPlan(
        folder=workspace.work_dir / "train" / fingerprint(parts),
        fingerprint=fingerprint(parts),
        train=params.train,
        tracking=params.tracking,
        settings=training_settings(params),
        watcher=watcher,
    )
    with exclusive(plan.folder):
        write_identity(plan.folder, parts)
        resumed_from = run_training(trainer, plan)
        points = _export(trainer, template, parts, plan, workspace)
    return {"resumed_from_step": resumed_from} | points.values()


def _trainer(params: Params, workspace: Workspace, template: PromptTemplate) -> Trainer:
    questions = _questions(params, workspace, template, "train")
    validation = _questions(params, workspace, template, "validation")
    score = None
    if params.selection.custom is not None:
        score = load_function("selection.custom", str(params.selection.custom), 2)
    path = read_initial(workspace.initial_dir).path
    policy = load_model(path, params.model.dtype, params.runtime.device)
    longest = max(len(prompt) for split in (questions, validation) for prompt in split.prompts)
    check_lengths(params, longest, policy.config)
    return Trainer(
        policy,
        Recipe(
            seed=params.seed,
            rollout=params.rollout,
            overlong=params.rewards.overlong,
            objective=params.objective,
            selection=params.selection,
            train=params.train,
            custom_score=score,
        ),
        questions=questions,
        validation=validation,
        eos_ids=end_token_ids(policy, template.tokenizer),
    )


def _questions(
    params: Params, workspace: Workspace, template: PromptTemplate, split: Split
) -> Questions:
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


def _export(
    trainer: Trainer,
    template: PromptTemplate,
    parts: Mapping[str, str],
    plan: RunPlan,
    workspace: Workspace,
) -> Points:
    """Write models/last, models/best and reports/train."""
    accuracy, state = validated(plan.live_dir), trainer.state
    assert state.best is not None
    points = Points(
        initial=Point(step=0, validation_accuracy=accuracy[0]),
        last=Point(step=state.step, validation_accuracy=accuracy[state.step]),
        best=Point(step=state.best.step, validation_accuracy=state.best.accuracy),
    )
    lineage = lineage_of(parts, plan.fingerprint)
    save_policy(trainer.policy, template, asdict(points.last) | lineage, workspace.last_dir)
    put_weights(trainer.policy, state.best.weights)
    save_policy(trainer.policy, template, asdict(points.best) | lineage, workspace.best_dir)
    counts = {
        "steps": state.step,
        "optimizer_steps": state.optimizer_steps,
        "no_signal_steps": state.no_signal_steps,
        "questions_drawn": state.draws,
    }
    write_report(workspace, plan.live_dir, points, counts, lineage)
    return points
