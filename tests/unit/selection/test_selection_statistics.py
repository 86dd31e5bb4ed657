import pytest
import torch

from gmts.batch import TokenStats
from gmts.selection.scores import score_tokens
from gmts.selection.select import select_tokens
from gmts.selection.statistics import selection_metrics
from tests.support.core import selection, token_batch

# Two responses of A = +1 and A = -2, five and three tokens; on-policy, so |omega| = |A|.
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
ADVANTAGES = torch.tensor([1.0, -2.0])
ENTROPY = torch.tensor([[0.9, 0.8, 0.1, 0.2, 0.0], [0.7, 0.3, 0.05, 9.0, 9.0]])
CLIPPED = torch.tensor([[False] * 5, [False, True, False, True, True]])


def metrics(**changes):
    config = selection(**({"ratio": 0.375} | changes))
    batch = token_batch(MASK, advantages=ADVANTAGES)
    stats = TokenStats(
        log_probs=torch.zeros(2, 5), entropy=ENTROPY, logit_grad_norm=torch.ones(2, 5)
    )
    omega = batch.advantages[:, None].expand(2, 5)
    scores = score_tokens(stats, omega, batch, config.score, seed=0, step=0)
    rows = torch.tensor([0, 1])
    chosen = select_tokens(scores, batch, config, seed=0, step=0, micro_batch_ids=rows)
    return selection_metrics(
        chosen, scores, stats, batch, CLIPPED, config, seed=0, step=0, micro_batch_ids=rows
    )


def test_metrics_of_gmts_by_hand():
    # Scores: .9 .8 .1 .2 0 | 1.4 .6 .1. The three largest: 1.4, .9, .8.
    # ets takes .9, .8, .7: the same three. Row by row: ceil(.375 * 5) = 2 and ceil(.375 * 3) = 2:
    # .9, .8 and 1.4, .6.
    assert metrics() == pytest.approx(
        {
            "selection/fraction": 3 / 8,
            "selection/eligible": 7 / 8,
            "selection/saturated": 0.0,
            "selection/threshold": 0.8,
            "selection/positive": 2 / 3,
            "selection/negative": 1 / 3,
            "selection/clipped": 0.0,
            "selection/score_kept": 3.1 / 4.1,
            "selection/jaccard_ets": 1.0,
            "selection/jaccard_micro_batch": 3 / 4,
        }
    )


def test_metrics_of_another_score_are_compared_with_ets_too():
    # |omega|: 1 five times, 2 three times. Ratio 3/8 takes all of the second response.
    found = metrics(score="advantage")
    assert found["selection/threshold"] == 2.0
    assert found["selection/negative"] == 1.0
    assert found["selection/clipped"] == pytest.approx(1 / 3)
    assert found["selection/score_kept"] == pytest.approx(6 / 11)
    assert found["selection/jaccard_ets"] == pytest.approx(1 / 5)


def test_metrics_of_training_on_every_token_compare_with_nothing():
    assert metrics(score="none") == pytest.approx(
        {
            "selection/fraction": 1.0,
            "selection/eligible": 1.0,
            "selection/saturated": 0.0,
            "selection/positive": 5 / 8,
            "selection/negative": 3 / 8,
            "selection/clipped": 1 / 8,
            "selection/score_kept": 1.0,
        }
    )


def test_metrics_of_an_empty_selection_are_finite():
    batch = token_batch(MASK, advantages=torch.zeros(2))
    stats = TokenStats(
        log_probs=torch.zeros(2, 5), entropy=ENTROPY, logit_grad_norm=torch.ones(2, 5)
    )
    config = selection()
    scores = score_tokens(stats, torch.zeros(2, 5), batch, "gmts", seed=0, step=0)
    rows = torch.tensor([0, 0])
    chosen = select_tokens(scores, batch, config, seed=0, step=0)
    assert selection_metrics(
        chosen, scores, stats, batch, CLIPPED, config, seed=0, step=0, micro_batch_ids=rows
    ) == {
        "selection/fraction": 0.0,
        "selection/eligible": 0.0,
        "selection/saturated": 1.0,
        "selection/positive": 0.0,
        "selection/negative": 0.0,
        "selection/clipped": 0.0,
        "selection/score_kept": 0.0,
        "selection/jaccard_ets": 0.0,
        "selection/jaccard_micro_batch": 1.0,
    }


def test_tokens_without_advantage_count_on_neither_side():
    batch = token_batch(MASK, advantages=torch.tensor([0.0, -2.0]))
    stats = TokenStats(
        log_probs=torch.zeros(2, 5), entropy=ENTROPY, logit_grad_norm=torch.ones(2, 5)
    )
    config = selection(score="ets", ratio=0.5)  # .9, .8 and .7, .3
    scores = score_tokens(stats, torch.zeros(2, 5), batch, "ets", seed=0, step=0)
    common = {"seed": 0, "step": 0, "micro_batch_ids": torch.tensor([0, 0])}
    chosen = select_tokens(scores, batch, config, **common)
    found = selection_metrics(chosen, scores, stats, batch, CLIPPED, config, **common)
    assert found["selection/positive"] == 0.0
    assert found["selection/negative"] == 0.5
    assert found["selection/clipped"] == 0.25
