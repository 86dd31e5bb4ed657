"""Where a step could go wrong without anybody noticing."""

import copy
import dataclasses
import datetime

import pytest
import torch
from torch import distributed, multiprocessing
from transformers import AutoConfig, AutoModelForCausalLM

from gmts.batch import TokenStats
from gmts.trainers.standalone.forward import check_head
from gmts.trainers.standalone.optimizer import make_optimizer
from gmts.trainers.standalone.step import update_step
from tests.support.policies import mini_batch, policy, step_settings

ADVANTAGES = (1.0, -1.0, 0.7, -0.7)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_an_old_log_prob_that_is_not_finite_is_refused_and_not_clamped(value):
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES)
    batch.old_log_probs[1, 2] = float(value)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(
        FloatingPointError,
        match=f"step 4 is refused: the old log-prob of sample 10 at position 2 is {value}",
    ):
        update_step(
            model, optimizer, batch, prompts, stats, step_settings(), step=4, moved=True
        )  # fmt: skip


def test_a_rollout_log_prob_that_is_not_finite_is_refused_where_it_is_used():
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES, rollout=0.1)
    batch.rollout_log_probs[1, 2] = float("-inf")

    def step(**changes):
        own = copy.deepcopy(model)
        optimizer = torch.optim.SGD(own.parameters(), lr=1.0)
        settings = step_settings(**changes)
        return update_step(own, optimizer, batch, prompts, stats, settings, step=4, moved=True)

    assert step()["train/grad_norm"] > 0
    with pytest.raises(
        FloatingPointError, match="the rollout log-prob of sample 10 at position 2 is -inf"
    ):
        step(rollout_is="token")


def test_rollout_weights_are_reported_over_all_response_tokens():
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES)  # 5 + 3 + 1 + 6 tokens
    ratio = torch.ones_like(batch.old_log_probs)
    ratio[0, :4], ratio[3, :2] = 8.0, 0.25
    batch = dataclasses.replace(batch, rollout_log_probs=batch.old_log_probs - ratio.log())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    metrics = update_step(
        model, optimizer, batch, prompts, stats, step_settings(rollout_is="token"), step=0,
        moved=False,
    )  # fmt: skip
    assert metrics["rollout/is_weight_mean"] == pytest.approx((4 * 2 + 2 * 0.25 + 9) / 15)
    assert metrics["rollout/is_weight_truncated"] == pytest.approx(4 / 15)


def test_the_rounding_of_another_micro_batch_moves_no_token_over_a_clip_bound():
    model = policy(dtype=torch.float32)
    batch, prompts, stats = mini_batch(model, ADVANTAGES, lengths=(60, 50, 40, 55))

    def change(**changes):
        own = copy.deepcopy(model)
        optimizer = torch.optim.SGD(own.parameters(), lr=1.0)
        settings = step_settings(score="none", **changes)
        update_step(own, optimizer, batch, prompts, stats, settings, step=0, moved=False)
        pairs = zip(own.parameters(), model.parameters(), strict=True)
        return torch.cat([(new - old).detach().flatten() for new, old in pairs])

    wide = change()
    for tokens in (1, 100):  # r is 1 but for rounding, so that bounds of 0 may cut nothing
        tight = change(clip_ratio_low=0.0, clip_ratio_high=0.0, micro_batch_tokens=tokens)
        assert (tight - wide).norm() <= 1e-4 * wide.norm()


def test_a_stale_selection_of_tokens_that_are_clipped_by_now_is_a_step_without_signal():
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0,) * 4)
    batch = dataclasses.replace(batch, old_log_probs=stats.log_probs - 1.0)  # r is e in truth
    stale = dataclasses.replace(stats, log_probs=batch.old_log_probs)
    settings = step_settings(lr=0.01, score_policy="old")
    optimizer = make_optimizer(model, settings.optimizer)
    first = mini_batch(model, ADVANTAGES)
    update_step(model, optimizer, *first, step_settings(lr=1e-4), step=0, moved=False)
    before = copy.deepcopy([list(model.parameters()), optimizer.state_dict()["state"]])
    metrics = update_step(model, optimizer, batch, prompts, stale, settings, step=1, moved=True)
    assert metrics["selection/fraction"] == pytest.approx(0.2)
    assert metrics["train/no_signal"] == 1.0
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.parameters(), strict=True))
    for number, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(before[1][number][name], value) for name, value in state.items())


def step_on(rows, group=None):
    model = policy()
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15)
    own = TokenStats(
        **{name: getattr(stats, name)[rows] for name in TokenStats.__dataclass_fields__}
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    prompts = [prompts[row] for row in rows.tolist()]
    metrics = update_step(
        model, optimizer, batch.rows(rows), prompts, own, step_settings(), step=4, moved=True,
        process_group=group,
    )  # fmt: skip
    return [p.detach() for p in model.parameters()], metrics


def worker(rank, size, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )  # fmt: skip
    group = distributed.group.WORLD
    parts = [[0, 1, 2, 3], []] if rank == 0 else [[], [0, 1, 2, 3]]
    results = [step_on(torch.tensor(part, dtype=torch.long), group) for part in parts]
    torch.save(results, f"{folder}/rank{rank}.pt")
    distributed.destroy_process_group()


def test_a_rank_without_any_row_joins_the_step_and_reports_the_same(tmp_path):
    multiprocessing.start_processes(worker, args=(2, str(tmp_path)), nprocs=2, start_method="fork")
    expected, alone = step_on(torch.arange(4))
    for rank in range(2):
        for weights, metrics in torch.load(tmp_path / f"rank{rank}.pt"):
            for found, value in zip(weights, expected, strict=True):
                torch.testing.assert_close(found, value, rtol=0, atol=1e-12)
            for key in ("policy/log_ratio_abs_max", "train/loss", "train/grad_norm"):
                assert metrics[key] == pytest.approx(alone[key], abs=1e-12)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_causal_models_pass_the_check_of_their_head(kind, dtype):
    check_head(policy(kind, dtype=dtype))


def test_a_model_with_more_than_a_head_after_its_hidden_states_is_refused():
    config = AutoConfig.for_model(
        "bert", vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, is_decoder=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(ValueError, match=r"^model\.path must be a causal LM .*BertLMHeadModel"):
        check_head(model)
