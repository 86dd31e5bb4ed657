"""The benchmark stage: one model's score on one benchmark."""

from dataclasses import asdict

from gmts.config import ConfigError, Params
from gmts.config.load import parse_rewards
from gmts.evaluation.config import BenchmarkName
from gmts.files import new_folder
from gmts.stages.scoring import Exam, report_scores, score_model
from gmts.stages.workspace import ModelName, StageResult, Workspace, stage_run


def benchmark(
    params: Params, workspace: Workspace, name: BenchmarkName, model: ModelName
) -> StageResult:
    """Write reports/benchmarks/NAME/MODEL: scores.json and every response.

    Args:
        params: The experiment.
        workspace: Where its models lie.
        name: A key of `benchmarks`.
        model: Which of its models.

    Raises:
        ConfigError: If params.yaml has no such benchmark, its kind of verdict is not there, or the
            model's prompt template is not the one it was trained with.
        ValueError: If the benchmark's rows or the model folder are missing or broken, or what its
            verdicts need is not installed.
        IsolationError: If programs are to be judged and cannot be isolated here.
        OSError: If the Hub cannot be reached.
    """
    from gmts.evaluation.benchmarks import BENCHMARKS

    if name not in params.benchmarks:
        known = ", ".join(params.benchmarks) or "none"
        raise ConfigError(f"the benchmark must be one of params.yaml ({known}), got {name}")
    with stage_run(f"benchmark-{name}-{model}", workspace) as run:
        exam = make_exam(params, workspace, name)
        if exam.rewards.scorer != "custom":
            BENCHMARKS[name].check()
        with new_folder(workspace.benchmarks_dir / name / model) as target:
            scores = score_model(params, workspace, model, exam, target)
        report_scores(run, scores)
    return run.result()


def make_exam(params: Params, workspace: Workspace, name: BenchmarkName) -> Exam:
    """Return a benchmark's questions and how they are answered and judged.

    The verdicts are those of the benchmark's kind, whatever the model was trained with.

    Raises:
        ConfigError: If rewards.scorer knows no such kind.
        ValueError: If the rows are missing, broken or not the pinned ones.
        OSError: If the Hub cannot be reached.
    """
    from gmts.evaluation.benchmarks import BENCHMARKS, read_rows_of
    from gmts.evaluation.run import greedy_settings

    config, kind = params.benchmarks[name], BENCHMARKS[name].kind
    scorer = kind if config.custom is None else "custom"
    greedy = kind == "code" if config.greedy is None else config.greedy
    rewards = asdict(params.rewards) | {"scorer": scorer, "custom": config.custom}
    found = read_rows_of(name, config, workspace.root)
    return Exam(
        task=f"gmts_{name}",
        rows=found.rows[: params.evaluate.question_limit],
        rewards=parse_rewards(rewards),
        config=greedy_settings(params.evaluate) if greedy else params.evaluate,
        data={
            "benchmark": name,
            "sha256": found.rows_sha256,
            "rows": len(found.rows),
            "files": found.files,
            "hub": found.hub,
            "local": found.files if found.hub is None else {},
        },
    )
