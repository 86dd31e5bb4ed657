"""The evaluate stage: one model's score on the test split."""

from gmts.config import Params
from gmts.files import new_folder
from gmts.stages.scores import describe_benchmarks
from gmts.stages.scoring import Exam, report_scores, score_model
from gmts.stages.workspace import ModelName, StageResult, Workspace, stage_run


def evaluate(params: Params, workspace: Workspace, model: ModelName) -> StageResult:
    """Write reports/evaluation/MODEL: scores.json and every response.

    Raises:
        ConfigError: If the model's prompt template is not the one it was trained with.
        ValueError: If the test split or the model folder is missing or broken.
    """
    from gmts.data.manifest import check_split, read_manifest
    from gmts.data.rows import read_rows

    with stage_run(f"evaluate-{model}", workspace) as run:
        rows = read_rows(check_split(workspace.prepared_dir, "test"))
        split = read_manifest(workspace.prepared_dir)["splits"]["test"]
        exam = Exam(
            task="gmts_test",
            rows=rows[: params.evaluate.question_limit],
            rewards=params.rewards,
            config=params.evaluate,
            data={"split": "test", "sha256": split["sha256"], "rows": len(rows)},
        )
        with new_folder(workspace.evaluation_dir(model)) as target:
            scores = score_model(params, workspace, model, exam, target)
        describe_benchmarks(workspace)
        report_scores(run, scores)
    return run.result()
