"""A split as verl's data set reads it, and our scorers as its reward function."""

import functools
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from pydantic import TypeAdapter

from gmts.data.rows import Row
from gmts.rewards.config import RewardsConfig
from gmts.rewards.scorer import Scorer, make_scorer


def write_questions(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as the parquet file for `data.train_files` or `data.val_files`."""
    Dataset.from_list(
        [
            {
                "prompt": list(row.messages),
                "data_source": row.source,
                "reward_model": {"style": "rule", "ground_truth": row.ground_truth},
                "extra_info": {
                    "index": number,
                    "id": row.id,
                    "meta": json.dumps(row.meta, sort_keys=True, ensure_ascii=False),
                },
            }
            for number, row in enumerate(rows)
        ]
    ).to_parquet(str(path))


def judge(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any],
    *,
    rewards: str,
) -> dict[str, Any]:
    """Return {"score", "acc"} of a response: its reward, and 1.0 if the verdict is right.

    Args:
        data_source: Of the question; the scorer finds what it needs in the meta data.
        solution_str: The response.
        ground_truth: The answer.
        extra_info: `id` and `meta` as `write_questions` wrote them.
        rewards: `RewardsConfig` as JSON, from reward.custom_reward_function.reward_kwargs.

    Raises:
        RewardError: If an own scorer returns what is no verdict.
        ValueError: If `rewards` is no such section, or names an own scorer that is not there.
    """
    del data_source
    scorer = _scorer(rewards)
    try:
        verdict = scorer(solution_str, ground_truth, json.loads(extra_info["meta"]))
    except BaseException as error:
        error.add_note(f"while judging a response to row {extra_info['id']}")
        raise
    return {"score": verdict.score, "acc": float(verdict.correct)}


def _scorer(rewards: str) -> Scorer:
    # verl judges in threads: the first ones would each make a scorer, with its pool of processes.
    with _ONE_AT_A_TIME:
        return _made(rewards)


_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def _made(rewards: str) -> Scorer:
    return make_scorer(TypeAdapter(RewardsConfig).validate_json(rewards))
