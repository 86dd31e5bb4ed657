"""Plots of a run as PNG and SVG files; identical input gives identical files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from gmts.analysis.curves import PANELS, Panel, curve

_SIZE_INCHES = (6.4, 3.2)
_STYLE = {
    "svg.hashsalt": "gmts",
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 9,
}


def draw_panels(
    records: Sequence[Mapping[str, float | None]], folder: Path
) -> list[tuple[Panel, Path]]:
    """Write NAME.png and NAME.svg for every panel that has data, and return the SVG files."""
    drawn = []
    for panel in PANELS:
        series = {label: curve(records, key) for label, key in panel.series.items()}
        series = {label: points for label, points in series.items() if points[0]}
        if series:
            drawn.append((panel, _draw(panel, series, folder)))
    return drawn


def _draw(
    panel: Panel, series: Mapping[str, tuple[list[float], list[float]]], folder: Path
) -> Path:
    with matplotlib.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
        for label, (steps, values) in series.items():
            marker = "o" if len(steps) < 20 else ""
            axes.plot(steps, values, label=label, marker=marker, markersize=4)
        axes.set(title=panel.title, xlabel="step", ylabel=panel.unit)
        if len(series) > 1:
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        figure.savefig(folder / f"{panel.name}.png", dpi=120, metadata={"Software": None})
        figure.savefig(folder / f"{panel.name}.svg", metadata={"Date": None, "Creator": "gmts"})
        pyplot.close(figure)
    return folder / f"{panel.name}.svg"


def draw_scores(scores: Mapping[str, Mapping[str, float]], metric: str, folder: Path) -> Path:
    """Write scores.png and scores.svg: each model's score on the test split with its interval."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
        for place, score in enumerate(scores.values()):
            value = score["value"]
            reach = [[value - score["low"]], [score["high"] - value]]
            axes.bar(place, value, yerr=reach, capsize=4, width=0.6)
            axes.annotate(f"{100 * value:.1f}%", (place, 0.02), ha="center", color="white")
        axes.set_xticks(range(len(scores)), list(scores))
        axes.set(title="Test split", ylabel=metric, ylim=(0, 1))
        figure.savefig(folder / "scores.png", dpi=120, metadata={"Software": None})
        figure.savefig(folder / "scores.svg", metadata={"Date": None, "Creator": "gmts"})
        pyplot.close(figure)
    return folder / "scores.svg"
