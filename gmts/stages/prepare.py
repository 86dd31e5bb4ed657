"""The prepare stage: questions into splits that never overlap."""

from typing import TYPE_CHECKING

from gmts.config import Params
from gmts.files import new_folder
from gmts.stages.workspace import StageResult, Workspace, stage_run

if TYPE_CHECKING:
    from gmts.data.sets.benchmarks import BenchmarkFiles

_POOL_COUNTS = (
    "rows_read",
    "duplicates_removed",
    "conflicting_questions_removed",
    "bad_rows_skipped",
    "near_benchmarks",
    "near_earlier_rows",
)


def prepare(params: Params, workspace: Workspace) -> StageResult:
    """Write data/prepared: train, validation and test as parquet, and their manifest.

    Raises:
        ValueError: If a setting, a file or a row is not valid, or a split ends up empty; nothing
            is written then.
        OSError: If data/prepared cannot be written, or the Hub cannot be reached.
    """
    if params.model.path is not None:
        workspace.given_model(params.model.path)
    with stage_run("prepare", workspace) as run:
        from gmts.data.prepare import prepare_data
        from gmts.data.sets.benchmarks import files_of

        root = workspace.root
        benchmarks: dict[str, BenchmarkFiles] = {}
        if params.data.source in ("hub", "local"):  # rows that others wrote
            for name, config in params.benchmarks.items():
                benchmarks[name] = files_of(name, config, root)
        with new_folder(workspace.prepared_dir) as folder:
            manifest = prepare_data(
                folder, params.data, params.model, root=root, benchmarks=benchmarks
            )
        run.values["rows_sha256"] = manifest["rows_sha256"]
        for split, found in manifest["splits"].items():
            run.values[f"{split} rows"] = found["rows"]
            run.values[f"{split} dropped as too long"] = found["dropped_as_too_long"]
        for split, pool in manifest.get("pools", {}).items():
            for count in _POOL_COUNTS:
                run.values[f"{split} files: {count.replace('_', ' ')}"] = pool[count]
    return run.result()
