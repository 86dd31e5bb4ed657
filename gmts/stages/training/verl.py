"""Training with verl, in a process tree of its own."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gmts.config import Params
from gmts.data.manifest import read_manifest, split_file
from gmts.data.questions import Split
from gmts.data.rows import read_rows
from gmts.files import new_folder
from gmts.models.folder import load_model
from gmts.models.initial import read_initial
from gmts.models.template import PromptTemplate
from gmts.stages.training.inputs import (
    check_lengths,
    initial_template,
    train_python,
    training_settings,
)
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
from gmts.trainers.verl.checkpoints import found_in, load_policy
from gmts.trainers.verl.config import Experiment
from gmts.trainers.verl.launch import Launch, run
from gmts.trainers.verl.mapping import Places, hydra_overrides
from gmts.trainers.verl.questions import write_questions
from gmts.trainers.watch.tracking import METRICS_FILE, read_metrics

_LOGICAL_CPUS = 16
"""Ray's processor slots on a machine with fewer: verl's actors take one each and mostly wait."""


def train_with_verl(
    params: Params, workspace: Workspace, parts: Mapping[str, str], watcher: StepWatcher | None
) -> dict[str, Any]:
    """Train and write the outputs; return values for the stage's result.

    Args:
        params: The experiment.
        workspace: The clone.
        parts: The run's identity; verl's version is added to it.
        watcher: See `gmts.stages.train.train`.

    Raises:
        ValueError: If verl is not installed where it is to run, or sampling finds no signal.
        VerlError: If verl fails.
    """
    python = train_python(params)
    parts = {**parts, "verl": _version(python)}
    if params.verl.rollout_engine == "vllm":
        _check_vllm(python)
    template = initial_template(params, workspace)
    folder = workspace.work_dir / "train" / fingerprint(parts)
    with exclusive(folder):
        write_identity(folder, parts)
        launch = _launch(params, workspace, template, folder, python, watcher)
        outcome = run(launch)
        if outcome.kind == "no_signal":
            raise ValueError(outcome.message)
        points = _export(params, workspace, launch, template, lineage_of(parts, folder.name))
    return {"resumed_from_step": outcome.resumed_from} | points.values()


def _version(python: str) -> str:
    """Return the version of verl in the environment of `python`.

    Raises:
        ValueError: If there is no such interpreter, or no verl.
    """
    command = [python, "-c", "import importlib.metadata as m; print(m.version('verl'))"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(
            f"train.backend verl must have verl in the environment of {python}, and it is not "
            "there: `pip install -c constraints/cpu.txt 'gmts[verl]'`, or on GPUs see docs/gpu.md "
            "and set runtime.train_python"
        ) from error
    return done.stdout.strip()


def _check_vllm(python: str) -> None:
    command = [python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('vllm'))"]
    if subprocess.run(command, check=False).returncode != 0:
        raise ValueError(
            f"verl.rollout_engine vllm must have vLLM in the environment of {python}, and it is "
            "not there: on a CPU `make install-vllm`, on GPUs `make install-gpu`; then set "
            "runtime.train_python"
        )


def _launch(
    params: Params,
    workspace: Workspace,
    template: PromptTemplate,
    folder: Path,
    python: str,
    watcher: StepWatcher | None,
) -> Launch:
    """Write the questions as verl reads them and return the run."""
    initial = read_initial(workspace.initial_dir).path
    splits: tuple[Split, ...] = ("train", "validation")
    longest = 0
    with new_folder(folder / "questions") as questions:
        for split in splits:
            rows = read_rows(split_file(workspace.prepared_dir, split))
            longest = max(longest, *(len(template.encode(row.messages)) for row in rows))
            write_questions(questions / f"{split}.parquet", rows)
    from transformers import AutoConfig

    check_lengths(params, longest, AutoConfig.from_pretrained(initial))
    experiment = Experiment.of(
        params, int(read_manifest(workspace.prepared_dir)["max_prompt_tokens"])
    )
    places = Places(
        run_name=params.name,
        model=initial,
        train_file=folder / "questions" / "train.parquet",
        validation_file=folder / "questions" / "validation.parquet",
    )
    cpu = params.runtime.device == "cpu"
    return Launch(
        folder=folder,
        overrides=hydra_overrides(experiment, places),
        steps=params.train.steps,
        num_ranks=experiment.num_ranks,
        checkpoints_kept=params.train.checkpoints_kept,
        platform="cpu" if cpu else "nvidia",
        python=python,
        threads=params.runtime.threads,
        ray_address=params.verl.ray_address or os.environ.get("RAY_ADDRESS"),
        num_cpus=max(_LOGICAL_CPUS, os.cpu_count() or 1),
        tracking=params.tracking,
        run_id=folder.name,
        settings=training_settings(params),
        watcher=watcher,
    )


def _export(
    params: Params,
    workspace: Workspace,
    launch: Launch,
    template: PromptTemplate,
    lineage: Mapping[str, str],
) -> Points:
    """Write models/last, models/best and reports/train."""
    accuracy = validated(launch.live_dir)
    checkpoints = {found.step: found for found in found_in(launch.checkpoints_dir)}
    steps = [step for step in accuracy if step == 0 or step in checkpoints]
    best = max(steps, key=lambda step: (accuracy[step], -step))
    points = Points(
        initial=Point(step=0, validation_accuracy=accuracy[0]),
        last=Point(step=launch.steps, validation_accuracy=accuracy[launch.steps]),
        best=Point(step=best, validation_accuracy=accuracy[best]),
    )
    initial = read_initial(workspace.initial_dir).path
    for point, target in ((points.last, workspace.last_dir), (points.best, workspace.best_dir)):
        if point.step == 0:
            policy = load_model(initial, params.model.dtype, "cpu")
        else:
            policy = load_policy(checkpoints[point.step], params.model.dtype)
        save_policy(policy, template, asdict(point) | dict(lineage), target)
    records = read_metrics(launch.live_dir / METRICS_FILE)
    mini_batches = params.train.questions_per_batch // params.train.questions_per_mini_batch
    counts = {
        "steps": launch.steps,
        "optimizer_steps": launch.steps * mini_batches,
        "questions_drawn": int(sum(record.get("groups/sampled", 0) for record in records)),
    }
    write_report(workspace, launch.live_dir, points, counts, lineage)
    return points
