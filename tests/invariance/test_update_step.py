"""The update of weights against a plain float64 loop over the model's own logits."""

import copy
import math

import pytest
import torch

from gmts.objective.algorithms import ALGORITHMS
from gmts.trainers.standalone.optimizer import make_optimizer
from gmts.trainers.standalone.step import update_step
from tests.reference import loops
from tests.support.policies import mini_batch, policy, step_settings

ADVANTAGES = (1.0, -1.0, 0.7, -0.7)


def gradient(model, batch, prompts, stats, settings, *, moved=True, step=4):
    """Return the gradient that update_step hands to its optimizer, by plain SGD of rate 1."""
    model = copy.deepcopy(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    metrics = update_step(model, optimizer, batch, prompts, stats, settings, step=step, moved=moved)
    return {name: before[name] - p.detach() for name, p in model.named_parameters()}, metrics


def reference_gradient(model, batch, prompts, settings, *, step=4):
    """Return (gradient, selected pairs, N) by loops and autograd on full logits, row by row."""
    model = copy.deepcopy(model)
    objective, selection = settings.objective, settings.selection
    tokens, responses, entropies = [], [], []
    lengths = batch.response_mask.sum(1).tolist()
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        ids = batch.response_ids[row, :length].tolist()
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        log_p = (logits / settings.temperature).log_softmax(-1)
        tokens.append([log_p[t, ids[t]] for t in range(length)])
        entropies.append([-(row_p.exp() * row_p).sum().item() for row_p in log_p])
        responses.append(
            {
                "new": [value.item() for value in tokens[-1]],
                "old": batch.old_log_probs[row, :length].tolist(),
                "ref": None
                if batch.ref_log_probs is None
                else batch.ref_log_probs[row, :length].tolist(),
                "rollout": None
                if batch.rollout_log_probs is None
                else batch.rollout_log_probs[row, :length].tolist(),
                "A": batch.advantages[row].item(),
            }
        )
    config = {
        "level": ALGORITHMS[objective.algorithm].ratio_level,
        "eps1": objective.clip_ratio_low,
        "eps2": objective.clip_ratio_high,
        "c": objective.dual_clip,
        "beta": objective.beta,
        "C": objective.rollout_is_threshold if objective.rollout_is else None,
    }
    terms = loops.token_terms(responses, config)
    omega = [[pg + (pull if objective.mask_kl else 0.0) for _, pg, _, pull in row] for row in terms]
    score = {
        "gmts": lambda o, e: abs(o) * e,
        "ets": lambda o, e: e,
        "advantage": lambda o, e: abs(o),
        "none": lambda o, e: 1.0,
    }[selection.score]
    # scores are compared in float32
    values = [
        [torch.tensor(score(o, e)).item() for o, e in zip(*rows, strict=True)]
        for rows in zip(omega, entropies, strict=True)
    ]
    everyone = selection.score in ("ets", "none")
    eligible = [[everyone or value > 0 for value in row] for row in values]
    count = sum(lengths)
    if selection.score == "none":
        chosen = {(i, t) for i, row in enumerate(values) for t in range(len(row))}
    else:
        chosen = loops.select(
            values, eligible, batch.sample_ids.tolist(), count, selection.ratio,
            seed=settings.seed, step=step, side=selection.side,
        )  # fmt: skip
    selected = [[(i, t) in chosen for t in range(len(row))] for i, row in enumerate(values)]
    base = loops.base_weights(
        lengths, ALGORITHMS[objective.algorithm].aggregation, settings.max_response_tokens
    )
    weights = loops.final_weights(
        base, selected, eligible, batch.group_ids.tolist(), objective.denominator
    )
    loss = torch.zeros((), dtype=torch.float64)
    for i, row in enumerate(terms):
        for t, (_, pg, _, pull) in enumerate(row):
            kl_weight = weights[i][t] if objective.mask_kl else base[i][t]
            # d loss / d log pi = -(weight omega), term by term
            loss = loss - tokens[i][t] * (weights[i][t] * pg + kl_weight * pull)
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    filled = {
        name: torch.zeros_like(p) if g is None else g
        for (name, p), g in zip(parameters.items(), gradients, strict=True)
    }
    return filled, len(chosen), count


def assert_same(ours, expected, tolerance):
    for name, value in expected.items():
        scale = max(value.norm().item(), 1e-12)
        assert (ours[name] - value).norm().item() <= tolerance * scale, name


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": "grpo", "beta": 0.05},
        {"algorithm": "grpo", "beta": 0.05, "mask_kl": False, "denominator": "all"},
        {"algorithm": "gspo", "clip_ratio_low": 0.3, "clip_ratio_high": 0.4},
        {"algorithm": "dr_grpo", "denominator": "eligible"},
        {"denominator": "group_selected", "ratio": 0.4},
        {"score": "ets"},
        {"score": "ets", "side": "bottom", "ratio": 0.5},
        {"score": "advantage", "ratio": 0.5},
        {"score": "none"},
        {"dual_clip": 1.1, "ratio": 0.8},
        {"algorithm": "grpo", "beta": 0.05, "rollout_is": "token", "rollout_is_threshold": 1.2},
        {"algorithm": "gspo", "rollout_is": "token", "clip_ratio_low": 0.3, "clip_ratio_high": 0.4},
    ],
    ids=str,
)
def test_the_gradient_is_that_of_a_plain_float64_loop(kind, changes):
    model = policy(kind)
    ref = 0.4 if changes.get("beta") else None
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15, ref=ref, rollout=0.6)
    settings = step_settings(**changes)
    ours, metrics = gradient(model, batch, prompts, stats, settings)
    expected, num_selected, count = reference_gradient(model, batch, prompts, settings)
    assert metrics["selection/fraction"] == num_selected / count
    assert_same(ours, expected, 1e-9)


@pytest.mark.parametrize(
    "changes", [{}, {"algorithm": "gspo"}, {"score": "ets", "beta": 0.1}], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_micro_batches_and_row_order_do_not_change_the_step(changes, dtype):
    model = policy(dtype=dtype)
    ref = 0.4 if changes.get("beta") else None
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15, ref=ref)
    whole, _ = gradient(model, batch, prompts, stats, step_settings(**changes))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for tokens in (1, 9, 17):
        settings = step_settings(micro_batch_tokens=tokens, **changes)
        parts, _ = gradient(model, batch, prompts, stats, settings)
        assert_same(parts, whole, tolerance)
    order = torch.tensor([2, 0, 3, 1])
    from gmts.batch import TokenStats

    moved_stats = TokenStats(
        **{name: getattr(stats, name)[order] for name in TokenStats.__dataclass_fields__}
    )
    shuffled, _ = gradient(
        model, batch.rows(order), [prompts[i] for i in order], moved_stats, step_settings(**changes)
    )
    assert_same(shuffled, whole, tolerance)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_without_selection_the_step_is_the_plain_algorithms(algorithm):
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15)
    settings = {"algorithm": algorithm}
    plain, _ = gradient(model, batch, prompts, stats, step_settings(score="none", **settings))
    every, _ = gradient(
        model,
        batch,
        prompts,
        stats,
        step_settings(score="ets", ratio=1.0, denominator="eligible", **settings),
    )
    for name, value in plain.items():
        assert torch.equal(every[name], value)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("denominator", ["selected", "eligible", "all", "group_selected"])
def test_without_selection_its_switches_change_nothing(algorithm, denominator):
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15)
    plain, _ = gradient(
        model, batch, prompts, stats, step_settings(algorithm=algorithm, score="none")
    )
    switched = step_settings(
        algorithm=algorithm, score="none", denominator=denominator, ratio=0.5, side="bottom",
        scope="group",
    )  # fmt: skip
    other, _ = gradient(model, batch, prompts, stats, switched)
    for name, value in plain.items():
        assert torch.equal(other[name], value)


@pytest.mark.parametrize(
    "changes",
    [
        {"ratio": 0.6},
        {"score": "ets"},
        {"score": "random"},
        {"score": "logit_gradient"},
        {"side": "bottom"},
        {"scope": "group", "ratio": 0.1},
        {"denominator": "all"},
        {"denominator": "group_selected"},
        {"algorithm": "grpo"},
        {"algorithm": "dr_grpo"},
        {"clip_ratio_high": 0.01},
        {"clip_ratio_low": 0.01},
        {"dual_clip": 1.05},
        {"beta": 0.3},
        {"rollout_is": "token"},
    ],
    ids=str,
)
def test_every_switch_reaches_the_gradient(changes):
    model = policy()
    batch, prompts, stats = mini_batch(
        model, (1.0, -1.0, 0.9, -1.1), lengths=(9, 12, 7, 11), old_shift=0.3, ref=0.5, rollout=0.4
    )
    usual, _ = gradient(model, batch, prompts, stats, step_settings(ratio=0.5))
    other, _ = gradient(model, batch, prompts, stats, step_settings(**({"ratio": 0.5} | changes)))
    assert any(not torch.equal(usual[name], other[name]) for name in usual)


def test_on_the_first_step_the_ratio_is_exactly_one():
    model = policy(dtype=torch.float32)
    batch, prompts, stats = mini_batch(model, ADVANTAGES)
    _, metrics = gradient(model, batch, prompts, stats, step_settings(), moved=False)
    assert metrics["policy/log_ratio_abs_max"] == 0.0
    assert metrics["policy/clip_low"] == metrics["policy/clip_high"] == 0.0


def adamw_step(model, optimizer, advantages, *, step, **changes):
    batch, prompts, stats = mini_batch(model, advantages)
    settings = step_settings(lr=0.01, **changes)
    return update_step(model, optimizer, batch, prompts, stats, settings, step=step, moved=False)


def snapshot(model, optimizer):
    state = optimizer.state_dict()["state"]
    return copy.deepcopy([[p.detach() for p in model.parameters()], state])


def flat(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    items = tree.values() if isinstance(tree, dict) else tree
    return [tensor for item in items for tensor in flat(item)]


def test_a_step_without_signal_leaves_weights_and_moments_untouched():
    model = policy()
    optimizer = make_optimizer(model, step_settings(lr=0.01).optimizer)
    adamw_step(model, optimizer, ADVANTAGES, step=0)
    before = snapshot(model, optimizer)
    for score in ("gmts", "ets", "random", "none"):
        metrics = adamw_step(model, optimizer, (0.0,) * 4, step=1, score=score)
        assert metrics["train/no_signal"] == 1.0
        assert all(math.isfinite(value) for value in metrics.values())
    for old, new in zip(flat(before), flat(snapshot(model, optimizer)), strict=True):
        assert torch.equal(old, new)
    metrics = adamw_step(model, optimizer, ADVANTAGES, step=2)
    assert metrics["train/no_signal"] == 0.0
    after = snapshot(model, optimizer)
    assert any(not torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))


def test_skipping_can_be_turned_off_and_then_momentum_moves_the_weights():
    model = policy()
    optimizer = make_optimizer(model, step_settings(lr=0.01).optimizer)
    adamw_step(model, optimizer, ADVANTAGES, step=0)
    before = snapshot(model, optimizer)
    metrics = adamw_step(model, optimizer, (0.0,) * 4, step=1, skip_no_signal=False)
    assert metrics["train/no_signal"] == 1.0
    after = snapshot(model, optimizer)
    assert any(not torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))


def test_a_step_with_kl_signal_alone_is_taken_and_counted():
    model = policy()
    batch, prompts, stats = mini_batch(model, (0.0,) * 4, ref=0.5)
    changed, metrics = gradient(model, batch, prompts, stats, step_settings(beta=0.1), moved=False)
    assert metrics["train/kl_only"] == 1.0
    assert any(value.abs().sum() > 0 for value in changed.values())


def test_a_nan_log_prob_is_refused_with_step_sample_and_name():
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES)
    stats.log_probs[1, 2] = float("nan")
    with pytest.raises(
        FloatingPointError,
        match="optimizer step 4 is refused: the log-prob of sample 10 at position 2 is nan",
    ):
        gradient(model, batch, prompts, stats, step_settings(), moved=False)


def test_a_gradient_that_is_not_finite_is_refused_before_the_optimizer_moves():
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES)
    optimizer = make_optimizer(model, step_settings().optimizer)
    model.model.norm.weight.register_hook(lambda g: g * float("inf"))
    before = snapshot(model, optimizer)
    with pytest.raises(
        FloatingPointError, match=r"the gradient of model\.norm\.weight is not finite"
    ):
        update_step(model, optimizer, batch, prompts, stats, step_settings(), step=3, moved=False)
    for old, new in zip(flat(before), flat(snapshot(model, optimizer)), strict=True):
        assert torch.equal(old, new)


def test_an_own_score_decides_which_tokens_carry_loss():
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES)
    settings = step_settings(
        score="custom", ratio=0.05, custom=lambda stats, omega: -stats.log_probs * omega.abs()
    )
    _, metrics = gradient(model, batch, prompts, stats, settings, moved=False)
    best = (-stats.log_probs * batch.advantages.abs()[:, None]).where(batch.response_mask, 0).max()
    assert metrics["selection/threshold"] == pytest.approx(best.item(), rel=1e-6)
