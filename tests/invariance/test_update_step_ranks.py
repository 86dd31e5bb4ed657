"""An update step whose rows are spread over gloo processes is a single process's."""

import copy
from datetime import timedelta

import pytest
import torch
from torch import distributed, multiprocessing

from gmts.batch import TokenStats
from gmts.trainers.standalone.step import update_step
from tests.support.policies import mini_batch, policy, step_settings

ADVANTAGES = (1.0, -1.0, 0.7, -0.7)
SWITCHES = [
    {"score": "gmts", "ratio": 0.3},
    {"score": "ets", "ratio": 0.3, "scope": "group"},
    {"score": "gmts", "ratio": 0.5, "algorithm": "grpo", "beta": 0.1},
    {"score": "gmts", "ratio": 0.5, "denominator": "group_selected"},
    {"score": "gmts", "ratio": 0.5, "algorithm": "gspo", "denominator": "all"},
    {"score": "none", "algorithm": "dr_grpo"},
    {"score": "gmts", "ratio": 0.3, "rollout_is": "token", "rollout_is_threshold": 1.1},
]


def problem(switches):
    model = policy()
    ref = 0.1 if switches.get("beta") else None
    batch, prompts, stats = mini_batch(model, ADVANTAGES, old_shift=0.15, ref=ref, rollout=0.3)
    return model, batch, prompts, stats, step_settings(**switches)


def updated(model, batch, prompts, stats, settings, group=None):
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    metrics = update_step(
        model, optimizer, batch, prompts, stats, settings, step=4, moved=True, process_group=group
    )
    return {name: p.detach() for name, p in model.named_parameters()}, metrics


def share(batch, prompts, stats, rank, size):
    own = torch.arange(rank, len(prompts), size)  # the responses of a group lie on other ranks
    fields = (stats.log_probs, stats.entropy, stats.logit_grad_norm)
    names = ("log_probs", "entropy", "logit_grad_norm")
    rows = TokenStats(**{name: field[own] for name, field in zip(names, fields, strict=True)})
    return batch.rows(own), [prompts[row] for row in own.tolist()], rows


def worker(rank, size, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )
    group = distributed.group.WORLD
    results = []
    for switches in SWITCHES:
        model, batch, prompts, stats, settings = problem(switches)
        own = share(batch, prompts, stats, rank, size)
        results.append(updated(model, *own, settings, group))
    model, batch, prompts, stats, settings = problem(SWITCHES[0])
    batch.old_log_probs[1, 0] = float("nan")  # a row of rank 1
    with pytest.raises(FloatingPointError) as refused:
        updated(model, *share(batch, prompts, stats, rank, size), settings, group)
    results.append(str(refused.value))
    torch.save(results, f"{folder}/rank{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.parametrize("size", [2, 4])
def test_the_step_does_not_depend_on_the_number_of_ranks(tmp_path, size):
    multiprocessing.start_processes(
        worker, args=(size, str(tmp_path)), nprocs=size, start_method="fork"
    )
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(size)]
    for number, switches in enumerate(SWITCHES):
        expected, metrics = updated(*problem(switches))
        for results in ranks:
            weights, own_metrics = results[number]
            for name, value in expected.items():
                torch.testing.assert_close(weights[name], value, rtol=1e-10, atol=1e-13)
            for name, value in metrics.items():
                if (
                    name != "selection/jaccard_micro_batch"
                ):  # each rank has micro-batches of its own
                    assert own_metrics[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
    # The rank that holds the broken value names it; the others stop too, instead of waiting.
    assert "old log-prob of sample" in ranks[1][-1]
    assert "another rank has a value that is not finite" in ranks[0][-1]
