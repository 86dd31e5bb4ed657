"""The evaluate stage: one model's score on the test split."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gmts.config import ConfigError, Params
from gmts.files import new_folder
from gmts.stages.determinism import deterministic
from gmts.stages.workspace import StageResult, Workspace, stage_run

if TYPE_CHECKING:
    from gmts.models.initial import InitialModel

ModelName = Literal["initial", "last", "best"]
MODELS: tuple[ModelName, ...] = ("initial", "last", "best")


def evaluate(params: Params, workspace: Workspace, model: ModelName) -> StageResult:
    """Write reports/evaluation/MODEL: scores.json and every response.

    Raises:
        ConfigError: If the model's prompt template is not the one it was trained with.
        ValueError: If the test split or the model folder is missing or broken.
    """
    with stage_run(f"evaluate-{model}", workspace) as run:
        folder = _model_dir(workspace, model)
        with new_folder(workspace.evaluation_dir(model)) as target:
            scores = _evaluate(params, workspace, model, folder, target)
        average = scores["average"]
        run.values["average"] = average["value"]
        run.values["low"], run.values["high"] = average["low"], average["high"]
        run.values["truncated"] = scores["truncated"]
        run.values["sampled"] = scores["sampled"]
    return run.result()


def _evaluate(
    params: Params, workspace: Workspace, model: ModelName, folder: Path, target: Path
) -> dict[str, Any]:
    import torch
    import transformers

    import gmts.rollout
    from gmts.data.manifest import check_split, read_manifest
    from gmts.data.rows import read_rows
    from gmts.evaluation.cache import SampleCache, SamplingIdentity
    from gmts.evaluation.lm import PolicyLM
    from gmts.evaluation.run import evaluate_policy, write_evaluation
    from gmts.files import folder_sha256
    from gmts.models.folder import end_token_ids, load_model, load_tokenizer
    from gmts.models.identity import settings_sha256, weights_sha256
    from gmts.models.initial import read_initial
    from gmts.models.template import PromptTemplate
    from gmts.rewards.scorer import make_scorer
    from gmts.rollout.sampler import Sampler

    config = params.evaluate
    rows = read_rows(check_split(workspace.prepared_dir, "test"))[: config.question_limit]
    tokenizer = load_tokenizer(folder)
    template = PromptTemplate.of(tokenizer, params.model.template)
    _check_template(template.sha256, read_initial(workspace.initial_dir), folder)
    policy = load_model(folder, params.model.dtype, params.runtime.device)
    identity = SamplingIdentity(
        weights_sha256=weights_sha256(folder),
        config_sha256=settings_sha256(folder),
        template_sha256=template.sha256,
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
    lm = PolicyLM(
        Sampler(
            policy,
            eos_ids=end_token_ids(policy, tokenizer),
            temperature=config.temperature,
            max_response_tokens=config.max_response_tokens,
            batch_size=config.batch_size,
        ),
        template,
        SampleCache(workspace.work_dir / "eval-cache", identity),
        samples=config.samples,
        questions_per_chunk=max(1, config.batch_size // config.samples),
        seed=config.seed,
    )
    with deterministic(params.runtime):
        evaluation = evaluate_policy(lm, template, make_scorer(params.rewards), rows, config)
    lineage = {
        "model": model,
        "weights_sha256": identity.weights_sha256,
        "template_sha256": template.sha256,
        "data_sha256": read_manifest(workspace.prepared_dir)["splits"]["test"]["sha256"],
        "temperature": config.temperature,
        "max_response_tokens": config.max_response_tokens,
        "seed": config.seed,
        "sampling": asdict(identity),
        "sampling_sha256": identity.sha256(),
        "rewards": asdict(params.rewards),
    }
    scores = write_evaluation(target, evaluation, config, lineage)
    return scores | {"sampled": lm.num_sampled}


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
