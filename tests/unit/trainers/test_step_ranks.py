"""One optimizer step shared by ranks equals that of a single process."""

import datetime

import torch
from torch import distributed, multiprocessing

from gmts.batch import TokenStats
from gmts.trainers.standalone.step import update_step
from tests.support.policies import mini_batch, policy, step_settings

LAYOUTS = {"spread": (0, 1, 0, 1), "other": (1, 1, 0, 1)}
"""The rank of each row; rows 0 and 1, and 2 and 3, are a group."""
CHANGES = (
    {},
    {"algorithm": "grpo", "beta": 0.05, "denominator": "group_selected"},
    {"algorithm": "gspo", "score": "ets", "scope": "group"},
)


def step_on(rows, changes, group=None):
    """Return (weights after a step of plain SGD on these rows, metrics)."""
    model = policy()
    batch, prompts, stats = mini_batch(model, (1.0, -1.0, 0.7, -0.7), old_shift=0.15, ref=0.4)
    own = TokenStats(
        **{name: getattr(stats, name)[rows] for name in TokenStats.__dataclass_fields__}
    )
    metrics = update_step(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        batch.rows(rows),
        [prompts[row] for row in rows.tolist()],
        own,
        step_settings(**changes),
        step=4,
        moved=True,
        process_group=group,
    )
    return [p.detach() for p in model.parameters()], metrics


def worker(rank, size, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )
    results = {}
    for name, owner in LAYOUTS.items():
        rows = (torch.tensor(owner) == rank).nonzero()[:, 0]
        for number, changes in enumerate(CHANGES):
            results[name, number] = step_on(rows, changes, distributed.group.WORLD)
    torch.save(results, f"{folder}/rank{rank}.pt")
    distributed.destroy_process_group()


def test_ranks_end_a_step_with_the_weights_of_a_single_process(tmp_path):
    multiprocessing.start_processes(worker, args=(2, str(tmp_path)), nprocs=2, start_method="fork")
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    for number, changes in enumerate(CHANGES):
        expected, alone = step_on(torch.arange(4), changes)
        for name in LAYOUTS:
            for results in ranks:
                weights, metrics = results[name, number]
                for found, value in zip(weights, expected, strict=True):
                    torch.testing.assert_close(found, value, rtol=0, atol=1e-12)
                for key in (
                    "train/loss",
                    "train/grad_norm",
                    "selection/fraction",
                    "policy/entropy",
                ):
                    assert abs(metrics[key] - alone[key]) < 1e-12, (name, changes, key)
