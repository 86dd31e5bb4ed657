"""The curves of a training run, from its metrics file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_VALIDATION = "validation/accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot: its file name, its title, its unit, and the metrics it shows by label."""

    name: str
    title: str
    unit: str
    series: Mapping[str, str]


PANELS: tuple[Panel, ...] = (
    Panel(
        name="reward",
        title="Reward",
        unit="mean over responses",
        series={"reward": "reward/mean", "share correct": "reward/correct"},
    ),
    Panel(
        name="accuracy",
        title="Held-out accuracy (validation split)",
        unit="share correct",
        series={"accuracy": _VALIDATION},
    ),
    Panel(name="entropy", title="Token entropy", unit="nats", series={"entropy": "policy/entropy"}),
    Panel(
        name="length",
        title="Response length",
        unit="tokens",
        series={"mean": "response/length_mean", "longest": "response/length_max"},
    ),
    Panel(
        name="gradient",
        title="Gradient norm, before clipping",
        unit="L2 norm",
        series={"gradient norm": "train/grad_norm"},
    ),
    Panel(
        name="clipping",
        title="Clipped tokens",
        unit="share of response tokens",
        series={"low": "policy/clip_low", "high": "policy/clip_high", "dual": "policy/clip_dual"},
    ),
    Panel(
        name="kl",
        title="KL to the initial policy (k3)",
        unit="nats per token",
        series={"KL": "policy/kl"},
    ),
    Panel(
        name="selection",
        title="Selected tokens",
        unit="share of response tokens",
        series={"selected": "selection/fraction"},
    ),
    Panel(
        name="threshold",
        title="Selection threshold",
        unit="score",
        series={"threshold": "selection/threshold"},
    ),
    Panel(
        name="groups",
        title="Groups without signal",
        unit="groups per step",
        series={"all right": "groups/all_right", "all wrong": "groups/all_wrong"},
    ),
)
"""What the report shows, in order."""


def read_metrics(path: Path) -> list[dict[str, float | None]]:
    """Return the records of a metrics.jsonl, one per step.

    Raises:
        ValueError: If the file cannot be read or a line is not JSON; the message names both.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}:{number} is not valid JSON: {error}") from error
    return records


def curve(
    records: Sequence[Mapping[str, float | None]], key: str
) -> tuple[list[float], list[float]]:
    """Return the steps at which `key` was recorded and its values there."""
    points = [
        (float(step), float(value))
        for record in records
        if (value := record.get(key)) is not None and (step := record["step"]) is not None
    ]
    return [step for step, _ in points], [value for _, value in points]
