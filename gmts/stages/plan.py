"""`gmts run --dry-run`: what an experiment would do, and whether anything stands in its way."""

import json
import os
import subprocess
from pathlib import Path

from gmts.config import Params
from gmts.config.checks import ignored_switches
from gmts.models.shape import ModelShape
from gmts.stages.findings import Findings
from gmts.stages.inputs import check_model, check_prompts, check_template
from gmts.stages.sizing import check_disk, check_memory, model_load
from gmts.stages.training.inputs import train_python
from gmts.stages.workspace import Workspace
from gmts.trainers.verl.config import Experiment
from gmts.trainers.verl.mapping import Places, hydra_overrides

_VALIDATION_TIMEOUT_S = 300
_REFUSED = 2


def make_plan(params: Params, root: Path, *, gpu_memory_gib: float) -> Findings:
    """Return the plan of an experiment and every check that needs no GPU.

    Nothing is written. Torch is loaded only where prepared prompts are there to be measured.

    Args:
        params: A valid experiment.
        root: The clone.
        gpu_memory_gib: Memory of one GPU, where runtime.device is cuda.
    """
    workspace = Workspace(root)
    found = _outline(params)
    shape, of_model = check_model(params, workspace)
    found += of_model + check_template(params, workspace)
    longest, of_prompts = check_prompts(params, workspace)
    found += of_prompts + _rewards(params)
    max_tokens = params.data.max_prompt_tokens + params.rollout.max_response_tokens
    if shape is not None:
        load = model_load(params, shape, max_tokens)
        found += _positions(params, shape, longest)
        found += check_memory(params, load, max_tokens=max_tokens, gpu_memory_gib=gpu_memory_gib)
        found += check_disk(params, load, root)
    if params.train.backend == "verl":
        found += _verl(params, workspace)
    return found


def _outline(params: Params) -> Findings:
    train, group = params.train, params.rollout.group_size
    per_batch = train.questions_per_batch // train.questions_per_mini_batch
    responses = train.questions_per_batch * group
    selection = params.selection
    chosen = "every token"
    if selection.score != "none":
        chosen = f"{selection.side} {selection.ratio:g} by {selection.score} per {selection.scope}"
    lines = [
        ("experiment", f"{params.name} (preset {params.preset})"),
        ("objective", f"{params.objective.algorithm}, beta {params.objective.beta:g}; {chosen}"),
        (
            "training",
            f"{train.steps} batches of {train.questions_per_batch} questions x {group} responses = "
            f"{train.steps * responses} responses, {train.steps * per_batch} optimizer steps",
        ),
        ("trainer", _trainer(params)),
    ]
    notes = []
    if ignored := ignored_switches(params):
        notes.append(f"selection.score none trains every token; ignored: {', '.join(ignored)}")
    if train.dynamic_sampling.enabled:
        notes.append(
            f"dynamic sampling may sample up to {train.dynamic_sampling.max_batches} times as much"
        )
    return Findings(lines=lines, notes=notes)


def _trainer(params: Params) -> str:
    verl = params.verl
    if params.train.backend == "standalone":
        return f"standalone on one {params.runtime.device}"
    return (
        f"verl on {verl.nodes} x {verl.ranks_per_node} {params.runtime.device} ranks, rollouts by "
        f"{verl.rollout_engine}, {verl.tensor_parallel} GPUs per copy"
    )


def _positions(params: Params, shape: ModelShape, longest: int | None) -> Findings:
    """Compare prompt and response with the model's positions; verl reserves the longest allowed."""
    if shape.max_positions is None:
        return Findings(notes=["config.json does not say how long a sequence the model can take"])
    response = params.rollout.max_response_tokens
    prompt = params.data.max_prompt_tokens
    if params.train.backend == "standalone" and longest is not None:
        prompt = longest
    if prompt + response <= shape.max_positions:
        return Findings()
    return Findings(
        problems=[
            f"rollout.max_response_tokens must be <= {shape.max_positions - prompt}, got "
            f"{response}: the model has {shape.max_positions} positions and prompts may take "
            f"{prompt}"
        ]
    )


def _rewards(params: Params) -> Findings:
    rewards = params.rewards
    if rewards.scorer == "reasoning_gym" and params.data.source != "reasoning_gym":
        what = f"data.set {params.data.set}" if params.data.set else f"source {params.data.source}"
        return Findings(
            missing=[f"a scorer: rewards.scorer {rewards.scorer} does not judge rows of {what}"]
        )
    return Findings(lines=[("rewards", rewards.custom or rewards.scorer)])


def _verl(params: Params, workspace: Workspace) -> Findings:
    """Let verl compose and validate its own configuration, in a process of its own."""
    path = params.model.path
    places = Places(
        run_name=params.name,
        model=workspace.root / path if path else workspace.initial_dir,
        train_file=workspace.prepared_dir / "train.parquet",
        validation_file=workspace.prepared_dir / "validation.parquet",
    )
    try:
        overrides = hydra_overrides(Experiment.of(params, params.data.max_prompt_tokens), places)
    except ValueError as error:
        return Findings(problems=[str(error)])
    python = train_python(params)
    command = [python, "-m", "gmts.trainers.verl.validation"]
    try:
        done = subprocess.run(
            command,
            cwd=workspace.root,
            env={**os.environ, "PYTHONPATH": _import_path()},
            input=json.dumps(overrides),
            capture_output=True,
            text=True,
            timeout=_VALIDATION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"runtime.train_python must be a Python, got {python}: {error}"
        return Findings(problems=[problem])
    if done.returncode == _REFUSED:
        return Findings(problems=[done.stderr.strip().splitlines()[-1]])
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["no message"])[-1]
        unchecked = f"verl in {python}: its configuration is not checked ({cause})"
        return Findings(missing=[unchecked])
    line = ("verl", f"accepts {len(overrides)} settings, says the verl of {python}")
    return Findings(lines=[line])


def _import_path() -> str:
    """Return where that Python finds the gmts that is running here."""
    here = str(Path(__file__).resolve().parents[2])
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([here, before]) if before else here
