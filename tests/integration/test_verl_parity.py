"""One fixed batch through both trainers: the same tokens, the same change of the weights."""

import json
from dataclasses import replace

import pytest
import torch

from gmts.trainers.standalone.step import update_step
from gmts.trainers.update.metrics import over_mini_batches
from gmts.trainers.verl.dumps import read_dump
from tests.support.policies import step_settings
from tests.support.verl_ranks import LEARNING_RATE, LENGTHS, fixed_batch, model32, run_ranks

pytestmark = pytest.mark.slow

OWNERS = {1: [0] * 8, 2: [0, 1, 1, 0, 0, 0, 1, 1]}
"""The rank of each row; groups lie on one rank and across."""
ALGORITHMS = {
    "grpo": {"algorithm": "grpo", "beta": 0.05},
    "dapo": {"algorithm": "dapo"},
    "gspo": {"algorithm": "gspo", "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4},
    "unmasked": {"algorithm": "grpo", "beta": 0.05, "mask_kl": False, "denominator": "eligible"},
    "dual": {"algorithm": "dr_grpo", "dual_clip": 1.05, "denominator": "group_selected"},
    "old": {"algorithm": "dapo", "score_policy": "old", "denominator": "all"},
    "weighted": {
        "algorithm": "grpo", "beta": 0.05, "rollout_is": "token", "rollout_is_threshold": 1.3,
    },
    "weighted_gspo": {
        "algorithm": "gspo", "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4, "rollout_is": "token",
    },
}  # fmt: skip
CASES = [
    *(("grpo", score, micro) for score in ("ets", "gmts") for micro in (1, 4)),
    *(("dapo", score, micro) for score in ("ets", "gmts") for micro in (1, 2)),
    *(("dapo", score, 2) for score in ("logit_gradient", "advantage", "random")),
    *((name, "gmts", 2) for name in ("gspo", "unmasked", "dual", "old")),
    *(("weighted", "gmts", micro) for micro in (1, 4)),
    ("weighted_gspo", "gmts", 2),
]
PLAIN = ("grpo", "dapo", "weighted")
STEPS = 2
"""The first reuses the old-log-prob pass, the second scores a policy that has moved."""


def changes_of(algorithm, score):
    return {**ALGORITHMS[algorithm], "score": score, "ratio": 0.3}


@pytest.fixture(scope="module", params=[1, 2], ids=["one rank", "two ranks"])
def ranks(request, tmp_path_factory):
    """Return (folder of verl's results on so many ranks)."""
    folder = tmp_path_factory.mktemp("verl") / f"ranks-{request.param}"
    owner = OWNERS[request.param]
    cases = [
        {
            "name": f"{name}-{score}-{micro}",
            "changes": changes_of(name, score),
            "micro": micro,
            "epochs": STEPS,
            "owner": owner,
        }
        for name, score, micro in CASES
    ]
    plain = {"micro": 2, "epochs": STEPS, "owner": owner}
    for name in PLAIN:
        changes = {**ALGORITHMS[name], "score": "none"}
        cases.append({"name": f"{name}-none", "changes": changes, **plain})
        cases.append({"name": f"{name}-stock", "changes": changes, "stock": True, **plain})
    run_ranks(folder, cases, request.param)
    return folder


def standalone(changes):
    """Return (weights, metrics, selected [step]) of the standalone trainer's steps."""
    model = model32()
    batch, prompts, stats = fixed_batch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    settings = step_settings(**changes)
    settings = replace(settings, optimizer=replace(settings.optimizer, lr=LEARNING_RATE))
    selections, metrics = [], []
    for step in range(STEPS):
        metrics.append(
            update_step(
                model, optimizer, batch, prompts, stats, settings, step=step, moved=step > 0,
                on_selection=lambda selection: selections.append(selection.mask),
            )
        )  # fmt: skip
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return weights, over_mini_batches(metrics), selections


def flat(weights, names):
    return torch.cat([weights[name].flatten().double() for name in names])


def change_of(weights):
    """Return (the change of the weights, the weights before)."""
    before = {name: value.detach() for name, value in model32().named_parameters()}
    names = sorted(before)
    return flat(weights, names) - flat(before, names), flat(before, names)


def selected_by_verl(folder, step):
    mask = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.bool)
    for batch, _, content in read_dump(folder, step):
        own = content["selected"]
        mask[batch.sample_ids, : own.shape[1]] = own
    return mask


@pytest.mark.parametrize(("algorithm", "score", "micro"), CASES)
def test_verl_selects_the_same_tokens_and_moves_the_weights_alike(ranks, algorithm, score, micro):
    weights, metrics, selections = standalone(changes_of(algorithm, score))
    folder = ranks / f"{algorithm}-{score}-{micro}"
    for step, selection in enumerate(selections):
        assert 0 < int(selection.sum()) < sum(LENGTHS)
        assert torch.equal(selected_by_verl(folder / "dumps", step), selection), step
    du, before = change_of(weights)
    dv, _ = change_of(torch.load(folder / "weights.pt", weights_only=True))
    assert du.norm() > 1e-3 * before.norm()
    assert (du - dv).norm() <= 1e-4 * du.norm()
    found = json.loads((folder / "metrics.json").read_text())
    comparable = {
        name for name in metrics if name not in ("train/lr", "selection/jaccard_micro_batch")
    }
    assert comparable <= set(found)
    for name in comparable:
        assert found[name] == pytest.approx(metrics[name], rel=1e-3, abs=1e-6), name


def test_the_weights_of_a_sampler_that_differs_decide_what_is_selected_and_learnt():
    usual, _, selections = standalone(changes_of("grpo", "gmts"))
    weighted, metrics, chosen = standalone(changes_of("weighted", "gmts"))
    assert not torch.equal(chosen[0], selections[0])
    assert (change_of(weighted)[0] - change_of(usual)[0]).norm() > 0.1 * change_of(usual)[0].norm()
    assert 0.1 < metrics["rollout/is_weight_truncated"] < 0.6


@pytest.mark.parametrize("algorithm", PLAIN)
def test_score_none_is_verls_own_training_bit_for_bit(ranks, algorithm):
    ours = torch.load(ranks / f"{algorithm}-none" / "weights.pt", weights_only=True)
    stock = torch.load(ranks / f"{algorithm}-stock" / "weights.pt", weights_only=True)
    assert change_of(stock)[0].norm() > 0
    for name, value in stock.items():
        assert torch.equal(ours[name], value), name


@pytest.mark.parametrize("algorithm", PLAIN)
def test_the_standalone_trainers_plain_algorithm_is_verls(ranks, algorithm):
    weights, _, _ = standalone({**ALGORITHMS[algorithm], "score": "none"})
    du, _ = change_of(weights)
    dv, _ = change_of(torch.load(ranks / f"{algorithm}-stock" / "weights.pt", weights_only=True))
    assert (du - dv).norm() <= 1e-4 * du.norm()
