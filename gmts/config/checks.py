"""Rules that span more than one key of params.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gmts.trainers.verl.config import Experiment, refusals

if TYPE_CHECKING:
    from gmts.config.schema import Params


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check(params: Params) -> list[str]:
    """Return every broken rule between keys, in words; empty when all hold."""
    rollout, objective, train = params.rollout, params.objective, params.train
    problems = []
    if rollout.group_size < 2:
        problems.append(
            f"rollout.group_size must be >= 2, got {rollout.group_size}: the advantage of a "
            "response is its distance from its group's mean, and with "
            "objective.normalize_by_std a single response has no deviation"
        )
    if train.questions_per_batch % train.questions_per_mini_batch:
        problems.append(
            "train.questions_per_mini_batch must divide train.questions_per_batch "
            f"({train.questions_per_batch}), got {train.questions_per_mini_batch}"
        )
    if train.checkpoint_every > train.steps:
        problems.append(
            f"train.checkpoint_every must be <= train.steps ({train.steps}), "
            f"got {train.checkpoint_every}"
        )
    if not _NAME.fullmatch(params.name):
        problems.append(
            "name must be letters, digits, '.', '_' and '-', the first a letter or digit, got "
            f"{params.name!r}: it names a folder"
        )
    sampling = train.dynamic_sampling
    if sampling.informative_on == "grade" and params.rewards.scorer != "custom":
        problems.append(
            "train.dynamic_sampling.informative_on must be verdict with rewards.scorer "
            f"{params.rewards.scorer}, got grade: only an own scorer grades"
        )
    buffer_tokens = params.rewards.overlong.buffer_tokens
    if buffer_tokens is not None and buffer_tokens > rollout.max_response_tokens:
        problems.append(
            "rewards.overlong.buffer_tokens must be <= rollout.max_response_tokens "
            f"({rollout.max_response_tokens}), got {buffer_tokens}"
        )
    problems += _custom(params)
    problems += _data(params)
    problems += _warmstart(params)
    problems += _benchmarks(params)
    if train.backend == "verl":
        problems += refusals(Experiment.of(params, params.data.max_prompt_tokens))
    for k in params.evaluate.pass_at:
        if not 1 <= k <= params.evaluate.samples:
            problems.append(
                f"evaluate.pass_at must lie in [1, evaluate.samples = {params.evaluate.samples}], "
                f"got {k}"
            )
    if objective.algorithm == "gspo" and objective.dual_clip is not None:
        problems.append(
            "objective.dual_clip must be null with objective.algorithm gspo, got "
            f"{objective.dual_clip}: its ratio is one per response"
        )
    return problems


def ignored_switches(params: Params) -> list[str]:
    """Return `key=value` for each switch that does nothing because every token is trained."""
    selection = params.selection
    if selection.score != "none":
        return []
    return [
        f"selection.ratio={selection.ratio}",
        f"selection.side={selection.side}",
        f"selection.scope={selection.scope}",
        f"objective.denominator={params.objective.denominator}",
    ]


def _custom(params: Params) -> list[str]:
    problems = []
    for key, wanted, path in (
        ("data", params.data.source == "custom", params.data.custom),
        ("rewards", params.rewards.scorer == "custom", params.rewards.custom),
        ("selection", params.selection.score == "custom", params.selection.custom),
    ):
        if wanted and path is None:
            problems.append(f"{key}.custom must be `module:function`, got null")
        if path is not None and path.count(":") != 1:
            problems.append(f"{key}.custom must be `module:function`, got {path!r}")
    return problems


def _data(params: Params) -> list[str]:
    data = params.data
    problems = []
    if data.source == "local":
        for split in ("train", "test"):
            optional = split == "test" and data.set is not None
            if getattr(data.files, split) is None and not optional:
                problems.append(
                    f"data.files.{split} must name a file when data.source is local, got null"
                )
    if data.source == "hub":
        if data.set is None:
            problems.append("data.set must name a set when data.source is hub, got null")
        if not _COMMIT.fullmatch(data.hub.revision or ""):
            problems.append(
                "data.hub.revision must be a commit of 40 hex digits when data.source is hub, got "
                f"{data.hub.revision or 'null'}: a branch or a tag may move"
            )
    if not _SHA256.fullmatch(data.expected.sha256 or "0" * 64):
        problems.append(
            f"data.expected.sha256 must be 64 hex digits or null, got {data.expected.sha256!r}"
        )
    names = [entry.partition("=") for entry in data.decontaminate]
    for name, equals, path in names:
        if not (name and equals and path):
            problems.append(f"data.decontaminate must list NAME=PATH, got {name + equals + path!r}")
    if len({name for name, _, _ in names}) < len(names):
        problems.append(
            f"data.decontaminate must list each name once, got {list(data.decontaminate)}"
        )
    twice = [name for name, _, _ in names if name in params.benchmarks]
    if twice:
        problems.append(
            "data.decontaminate must list other names than `benchmarks`, which are compared "
            f"anyway, got {', '.join(twice)}"
        )
    return problems


def _benchmarks(params: Params) -> list[str]:
    problems = []
    for name, config in params.benchmarks.items():
        key, revision = f"benchmarks.{name}", config.revision
        of_hub = (config.repo, revision, config.files)
        if config.path is not None and any(value is not None for value in of_hub):
            problems.append(
                f"{key}.path must be null beside repo, revision or files, got {config.path!r}: "
                "rows come from a local file or from the Hub"
            )
        if config.path is None and not _COMMIT.fullmatch(revision or ""):
            problems.append(
                f"{key}.revision must be a commit of 40 hex digits where there is no path, got "
                f"{revision or 'null'}: a branch or a tag may move"
            )
        if not _SHA256.fullmatch(config.sha256 or "0" * 64):
            problems.append(f"{key}.sha256 must be 64 hex digits or null, got {config.sha256!r}")
        if config.custom is not None and config.custom.count(":") != 1:
            problems.append(f"{key}.custom must be `module:function`, got {config.custom!r}")
    return problems


def _warmstart(params: Params) -> list[str]:
    warm = params.warmstart
    problems = []
    if warm.hidden_size % warm.num_heads:
        problems.append(
            f"warmstart.num_heads must divide warmstart.hidden_size ({warm.hidden_size}), "
            f"got {warm.num_heads}"
        )
    if warm.num_heads % warm.num_key_value_heads:
        problems.append(
            f"warmstart.num_key_value_heads must divide warmstart.num_heads ({warm.num_heads}), "
            f"got {warm.num_key_value_heads}"
        )
    return problems
