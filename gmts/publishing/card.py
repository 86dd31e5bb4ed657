"""The model card, for people."""

import io
import string
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from ruamel.yaml import YAML

from gmts.publishing.manifest import Lineage

_MODELS = ("initial", "last", "best")


def model_card(lineage: Lineage, *, license_name: str) -> str:
    """Return README.md: what the model is, how it scored, how it came to be, how to load it."""
    template = resources.files("gmts.publishing").joinpath("card.md").read_text(encoding="utf-8")
    objective, selection = lineage.params["objective"], lineage.params["selection"]
    return string.Template(template).substitute(
        license=license_name,
        name=lineage.name,
        base_model=lineage.base_model,
        algorithm=str(objective["algorithm"]).upper(),
        selection=_selection(selection),
        checkpoint=lineage.checkpoint,
        step=lineage.step,
        scores=_scores(lineage.scores),
        benchmarks=_benchmarks(lineage.benchmarks),
        changed=", ".join(f"`{key}`" for key in lineage.changed_keys) or "nothing",
        preset=lineage.preset,
        base_weights=lineage.base_weights_sha256,
        data_hash=lineage.data_hash,
        params_hash=lineage.params_hash,
        code_version=lineage.code_version,
        template=lineage.template_sha256,
        params=_yaml(lineage.params),
    )


def _selection(selection: Mapping[str, Any]) -> str:
    if selection["score"] == "none":
        return "every response token carries loss"
    return (
        f"the {selection['side']} {100 * selection['ratio']:g}% of response tokens by the score "
        f"`{selection['score']}` carry loss (scope: {selection['scope']})"
    )


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> str:
    first = next(iter(scores.values()))
    passes = list(first["pass_at"])
    names = [f"average@{first['samples']}", *(f"pass@{k}" for k in passes), "cut at the limit"]
    lines = [f"| model | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for model, score in scores.items():
        cells = [_interval(score["average"]), *(_interval(score["pass_at"][k]) for k in passes)]
        cells.append(f"{100 * score['truncated']:.1f}%")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _benchmarks(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return ""
    header = ["benchmark", "measure", *_MODELS]
    rows = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for line in lines:
        cells = [line["benchmark"], line["measure"], *(_interval(line[name]) for name in _MODELS)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(["", "## Benchmarks", "", *rows, ""])


def _interval(score: Mapping[str, float]) -> str:
    low, high = 100 * score["low"], 100 * score["high"]
    return f"{100 * score['value']:.1f}% [{low:.1f}, {high:.1f}]"


def _yaml(tree: Mapping[str, Any]) -> str:
    stream = io.StringIO()
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.dump(dict(tree), stream)
    return stream.getvalue().rstrip()
