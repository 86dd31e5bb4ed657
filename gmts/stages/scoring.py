"""One model's responses to questions, judged: what the stages evaluate and benchmark share."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmts.config import ConfigError, Params
from gmts.stages.determinism import deterministic
from gmts.stages.workspace import ModelName, StageClock, Workspace

if TYPE_CHECKING:
    from gmts.data.rows import Row
    from gmts.evaluation.cache import SamplingIdentity
    from gmts.evaluation.config import EvaluateConfig
    from gmts.models.initial import InitialModel
    from gmts.rewards.config import RewardsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """Questions, and how they are answered and judged."""

    task: str
    """lm-eval's name of the task."""
    rows: "Sequence[Row]"
    rewards: "RewardsConfig"
    config: "EvaluateConfig"
    data: Mapping[str, Any]
    """Recorded with the scores: where the rows are from, with hashes."""

    @property
    def greedy(self) -> bool:
        """Whether the most probable tokens are taken."""
        return self.config.temperature == 0


def score_model(
    params: Params, workspace: Workspace, model: ModelName, exam: Exam, target: Path
) -> dict[str, Any]:
    """Write scores.json and every response into `target`; return the scores and `sampled`.

    Raises:
        ConfigError: If the model's prompt template is not the one it was trained with.
        ValueError: If the model folder is missing or broken.
    """
    import gmts.rewards
    from gmts.evaluation.cache import SampleCache
    from gmts.evaluation.lm import PolicyLM
    from gmts.evaluation.run import evaluate_policy, write_evaluation
    from gmts.files import folder_sha256
    from gmts.models.folder import end_token_ids, load_model, load_tokenizer
    from gmts.models.initial import read_initial
    from gmts.models.template import PromptTemplate
    from gmts.rewards.scorer import make_scorer
    from gmts.rollout.sampler import Sampler

    folder, config = _model_dir(workspace, model), exam.config
    tokenizer = load_tokenizer(folder)
    template = PromptTemplate.of(tokenizer, params.model.template)
    _check_template(template.sha256, read_initial(workspace.initial_dir), folder)
    scorer = make_scorer(exam.rewards)
    policy = load_model(folder, params.model.dtype, params.runtime.device)
    identity = _identity(params, folder, template.sha256, config)
    lm = PolicyLM(
        Sampler(
            policy,
            eos_ids=end_token_ids(policy, tokenizer),
            temperature=config.temperature or 1.0,
            max_response_tokens=config.max_response_tokens,
            batch_size=config.batch_size,
        ),
        template,
        SampleCache(workspace.work_dir / "eval-cache", identity),
        samples=config.samples,
        questions_per_chunk=max(1, config.batch_size // config.samples),
        seed=config.seed,
        greedy=exam.greedy,
    )
    with deterministic(params.runtime):
        evaluation = evaluate_policy(lm, template, scorer, exam.rows, config, task=exam.task)
    lineage = {
        "model": model,
        "weights_sha256": identity.weights_sha256,
        "data": dict(exam.data),
        "data_sha256": exam.data["sha256"],
        "sampling": asdict(identity),
        "sampling_sha256": identity.sha256(),
        "rewards": asdict(exam.rewards),
        "rewards_sha256": folder_sha256(Path(gmts.rewards.__path__[0]), "**/*.py"),
    }
    scores = write_evaluation(
        target, evaluation, config, lineage, template=template, task=exam.task
    )
    return scores | {"sampled": lm.num_sampled}


def report_scores(run: StageClock, scores: Mapping[str, Any]) -> None:
    """Put what people want to see of a score into a stage's result."""
    average = scores["average"]
    run.values["average"] = average["value"]
    run.values["low"], run.values["high"] = average["low"], average["high"]
    for name, rate in scores.get("pass_rates", {}).items():
        run.values[f"pass_rate_{name}"] = rate["value"]
    run.values["truncated"] = scores["truncated"]
    run.values["sampled"] = scores["sampled"]


def _identity(
    params: Params, folder: Path, template_sha256: str, config: "EvaluateConfig"
) -> "SamplingIdentity":
    import torch
    import transformers

    import gmts.rollout
    from gmts.evaluation.cache import SamplingIdentity
    from gmts.files import folder_sha256
    from gmts.models.identity import settings_sha256, weights_sha256

    return SamplingIdentity(
        weights_sha256=weights_sha256(folder),
        config_sha256=settings_sha256(folder),
        template_sha256=template_sha256,
        code_sha256=folder_sha256(Path(gmts.rollout.__path__[0]), "*.py"),
        versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
        dtype=params.model.dtype,
        device=params.runtime.device,
        threads=params.runtime.threads,
        batch_size=config.batch_size,
        temperature=config.temperature,
        max_response_tokens=config.max_response_tokens,
        samples=config.samples,
        seed=config.seed,
    )


def _check_template(sha256: str, initial: "InitialModel", folder: Path) -> None:
    if sha256 != initial.template_sha256:
        raise ConfigError(
            f"the prompt template of {folder} must be the one of training "
            f"({initial.template_sha256}), got {sha256}: scores under another template do not "
            "compare; set model.template as in training"
        )


def _model_dir(workspace: Workspace, model: ModelName) -> Path:
    from gmts.models.initial import read_initial

    if model == "initial":
        return read_initial(workspace.initial_dir).path
    return workspace.last_dir if model == "last" else workspace.best_dir
