"""The publish stage: the chosen checkpoint as a folder that can be loaded and traced."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gmts.config import SCHEMA_VERSION, Params, params_hash
from gmts.config.load import read_yaml
from gmts.config.presets import changed_keys
from gmts.files import new_folder, read_json, write_json
from gmts.stages.scores import benchmark_lines
from gmts.stages.summary import build_summary, code_version
from gmts.stages.workspace import MODELS, StageResult, Workspace, stage_run

if TYPE_CHECKING:
    from gmts.publishing.manifest import Lineage


def publish(params: Params, workspace: Workspace) -> StageResult:
    """Write published/NAME and reports/summary.json; upload the folder if publish.hub_repo is set.

    Raises:
        ValueError: If an input is missing or broken; the message names the file.
    """
    with stage_run("publish", workspace) as run:
        from gmts.publishing.export import export

        chosen = workspace.last_dir if params.publish.checkpoint == "last" else workspace.best_dir
        target = workspace.published_dir / params.name
        with new_folder(target) as folder:
            export(
                chosen,
                folder,
                _lineage(params, workspace, chosen),
                license_name=params.publish.license,
                extra=[workspace.params_file],
            )
        if params.publish.hub_repo is not None:
            from gmts.publishing.hub import upload

            run.values["hub"] = upload(
                target, repo=params.publish.hub_repo, private=params.publish.hub_private
            )
        run.values["model"] = str(target.relative_to(workspace.root))
        summary = build_summary(
            params, workspace, model_dir=target, results={"publish": run.result()}
        )
        write_json(workspace.summary_file, summary)
    return run.result()


def _lineage(params: Params, workspace: Workspace, chosen: Path) -> "Lineage":
    from gmts.models.card import read_model_card
    from gmts.models.initial import read_initial
    from gmts.publishing.manifest import Lineage

    manifest = read_json(workspace.prepared_dir / "manifest.json")
    initial = read_initial(workspace.initial_dir)
    card = read_model_card(chosen)
    return Lineage(
        schema_version=SCHEMA_VERSION,
        name=params.name,
        preset=params.preset,
        changed_keys=tuple(changed_keys(workspace.root, read_yaml(workspace.params_file))),
        base_model="built and warm-started by gmts" if initial.built else initial.path.name,
        base_weights_sha256=initial.weights_sha256,
        data_hash=manifest["rows_sha256"],
        data_manifest=manifest,
        params=asdict(params),
        params_hash=params_hash(params),
        code_version=code_version(workspace.root),
        checkpoint=params.publish.checkpoint,
        step=card["extra"]["step"],
        template_sha256=initial.template_sha256,
        scores={
            model: {
                key: value
                for key, value in read_json(workspace.evaluation_dir(model) / "scores.json").items()
                if key in ("samples", "questions", "average", "pass_at", "truncated", "no_answer")
            }
            for model in MODELS
        },
        benchmarks=benchmark_lines(workspace, params.benchmarks),
    )
