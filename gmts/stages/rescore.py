"""Stored responses judged again, after rewards were changed; neither model nor GPU is needed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmts.config.load import parse_rewards
from gmts.files import new_folder, write_json
from gmts.imports import importable_from

if TYPE_CHECKING:
    from gmts.evaluation.results import Judged
    from gmts.rewards.config import RewardsConfig
    from gmts.rewards.scorer import Scorer

CHANGES = "changes.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """Scores before and after, and what became of single responses."""

    folder: Path
    """Holds the new scores.json and responses.jsonl.gz, and changes.json."""
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    changes: list[dict[str, Any]]
    """Responses whose verdict, reason or extracted answer is another one."""


def rescore(
    results: Path, root: Path, *, output: Path | None = None, rewards: Mapping[str, Any] | None
) -> Rescored:
    """Judge the responses in `results` again and write the new scores into another folder.

    Args:
        results: A folder that evaluate or benchmark wrote; it is not changed.
        root: The clone, where own scorers are found.
        output: The new folder, replaced where it is there; None: below reports/rescored for
            results of this clone, else beside them.
        rewards: The `rewards` section to judge by; None: the one that the results record.

    Raises:
        ConfigError: If `rewards` is not valid, e.g. recorded by another version of gmts.
        ValueError: If a result file is missing, damaged or not what its scores were computed from,
            or `output` is `results`.
    """
    from gmts.evaluation.config import EvaluateConfig
    from gmts.evaluation.results import Judged, read_results

    old, questions = read_results(results)
    target = output or _default_output(results, root)
    if target.resolve() == results.resolve():
        raise ValueError(f"the new folder must not be {results}: its scores are kept")
    config = parse_rewards(old["rewards"] if rewards is None else rewards)
    settings = EvaluateConfig(**old["settings"] | {"pass_at": tuple(old["settings"]["pass_at"])})
    with importable_from(root):
        scorer = _make_scorer(config)
        judged = [
            Judged(row=q.row, responses=q.responses, verdicts=_verdicts(q, scorer))
            for q in questions
        ]
    changes = _changes(questions, judged)
    with new_folder(target) as folder:
        new = _write(folder, old, judged, settings, config, results)
        write_json(folder / CHANGES, changes)
    return Rescored(folder=target, before=old, after=new, changes=changes)


def _default_output(results: Path, root: Path) -> Path:
    # Within reports/evaluation a new folder would be a changed output of DVC.
    reports = (root / "reports").resolve()
    if results.resolve().is_relative_to(reports):
        return reports / "rescored" / results.resolve().relative_to(reports)
    return results.with_name(f"{results.name}-rescored")


def _make_scorer(config: "RewardsConfig") -> "Scorer":
    from gmts.rewards.scorer import make_scorer

    return make_scorer(config)


def _verdicts(question: "Judged", scorer: "Scorer") -> tuple[Any, ...]:
    from gmts.evaluation.task import Judge

    judge = Judge(scorer, [question.row])
    judge({"index": 0}, [[response.text for response in question.responses]])
    return tuple(judge.verdicts[0])


def _changes(before: "list[Judged]", after: "list[Judged]") -> list[dict[str, Any]]:
    found = []
    for old, new in zip(before, after, strict=True):
        for sample, verdicts in enumerate(zip(old.verdicts, new.verdicts, strict=True)):
            was, now = ({name: getattr(v, name) for name in _COMPARED} for v in verdicts)
            if was != now:
                found.append({"id": old.row.id, "sample": sample, "before": was, "after": now})
    return found


_COMPARED = ("correct", "score", "reason", "extracted", "statuses")


def _write(
    folder: Path,
    old: Mapping[str, Any],
    judged: "list[Judged]",
    settings: Any,
    rewards: "RewardsConfig",
    results: Path,
) -> dict[str, Any]:
    import gmts.rewards
    from gmts.evaluation.results import RESPONSES, SCORES, write_responses
    from gmts.evaluation.run import Evaluation, summarize
    from gmts.files import file_sha256, folder_sha256

    write_responses(folder / RESPONSES, judged)
    evaluation = Evaluation(
        rows=[one.row for one in judged],
        responses=[one.responses for one in judged],
        verdicts=[one.verdicts for one in judged],
    )
    only_old = ("lm_eval_average", "pass_rates")  # the second is made anew where it still applies
    kept = {name: value for name, value in old.items() if name not in only_old}
    scores = {
        **kept,
        "responses_sha256": file_sha256(folder / RESPONSES),
        "rewards": asdict(rewards),
        "rewards_sha256": folder_sha256(Path(gmts.rewards.__path__[0]), "**/*.py"),
        "rescored_from": {
            "scores_sha256": file_sha256(results / SCORES),
            "responses_sha256": old["responses_sha256"],
            "rewards_sha256": old["rewards_sha256"],
        },
        **summarize(evaluation, settings),
    }
    write_json(folder / SCORES, scores)
    return scores
