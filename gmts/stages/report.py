"""The report stage: plots and one page about the run."""

from gmts.config import Params
from gmts.files import new_folder, read_json
from gmts.stages.scores import benchmark_lines
from gmts.stages.workspace import StageResult, Workspace, stage_run


def report(params: Params, workspace: Workspace) -> StageResult:
    """Write reports/report from the outputs of prepare, train, evaluate and benchmark.

    Raises:
        ValueError: If an input is missing or broken; the message names the file.
    """
    with stage_run("report", workspace) as run:
        from gmts.analysis.report import write_report

        file = workspace.prepared_dir / "contamination.json"
        contamination = read_json(file)["benchmarks"] if file.exists() else None
        with new_folder(workspace.report_dir) as folder:
            write_report(
                folder,
                title=f"{params.name} ({params.preset})",
                train_dir=workspace.train_dir,
                evaluation_dir=workspace.evaluation_dir("initial").parent,
                benchmarks=benchmark_lines(workspace, params.benchmarks),
                contamination=contamination,
            )
        run.values["page"] = str((workspace.report_dir / "index.html").relative_to(workspace.root))
    return run.result()
