"""Masks and weights over 1, 2 and 4 gloo processes are bit-identical to a single process's."""

import torch
from torch import distributed, multiprocessing

from gmts.batch import TokenBatch
from gmts.objective.weights import loss_weights
from gmts.selection.scores import Scores
from gmts.selection.select import select_tokens
from tests.support.core import objective, selection

CASES = {1: 40, 2: 60, 4: 200}
"""By the number of processes."""
DENOMINATORS = ["selected", "eligible", "all", "group_selected"]


def problem(number):
    """Random rows with heavy ties; some rows empty; groups spread over rows."""
    generator = torch.Generator().manual_seed(number)

    def draw(high, *shape):
        return torch.randint(0, high, shape, generator=generator)

    rows, width = 5 + int(draw(8, 1)), 1 + int(draw(9, 1))
    mask = torch.arange(width) < draw(width + 1, rows)[:, None]
    mask[0, 0] = True
    values = torch.where(mask, draw(4, rows, width).float() / 2, 0.0)
    batch = TokenBatch(
        response_ids=torch.zeros(rows, width, dtype=torch.long),
        response_mask=mask,
        old_log_probs=torch.zeros(rows, width),
        ref_log_probs=None,
        advantages=torch.zeros(rows),
        sample_ids=torch.randperm(1000, generator=generator)[:rows],
        group_ids=draw(3, rows),
    )
    owner = draw(4, rows)
    settings = selection(
        ratio=[0.1, 0.2, 0.5, 0.9][number % 4],
        side=["top", "bottom"][number // 4 % 2],
        scope=["batch", "group"][number // 8 % 2],
    )
    weighting = objective(
        denominator=DENOMINATORS[number % 4], algorithm=["dapo", "grpo"][number // 4 % 2]
    )
    return batch, values, owner, settings, weighting


def solve(batch, values, settings, weighting, number, group=None, exchange="auto"):
    scores = Scores(values=values, eligible=batch.response_mask & (values > 0))
    chosen = select_tokens(
        scores, batch, settings, seed=5, step=number, process_group=group, exchange=exchange
    )
    weights = loss_weights(
        batch, chosen.mask, scores.eligible, weighting, max_response_tokens=9, process_group=group
    )
    return chosen, weights


def worker(rank, size, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size
    )
    group = distributed.group.WORLD
    results = []
    for number in range(CASES[size]):
        batch, values, owner, settings, weighting = problem(number)
        own = (owner % size == rank).nonzero()[:, 0]
        for exchange in ("gather", "radix"):
            chosen, weights = solve(
                batch.rows(own), values[own], settings, weighting, number, group, exchange
            )
            counts = (chosen.num_selected, chosen.num_eligible, chosen.saturated, chosen.threshold)
            results.append((own, chosen.mask, weights.pg, counts))
    torch.save(results, f"{folder}/rank{rank}.pt")
    distributed.destroy_process_group()


def test_sets_and_weights_do_not_depend_on_the_number_of_ranks(tmp_path):
    for size in (1, 2, 4):
        folder = tmp_path / str(size)
        folder.mkdir()
        # Forked: seven fresh interpreters would take most of a minute to import torch.
        multiprocessing.start_processes(
            worker, args=(size, str(folder)), nprocs=size, start_method="fork"
        )
        ranks = [torch.load(folder / f"rank{rank}.pt") for rank in range(size)]
        for number in range(CASES[size]):
            batch, values, _, settings, weighting = problem(number)
            expected, weights = solve(batch, values, settings, weighting, number)
            for exchange in range(2):
                mask = torch.zeros_like(batch.response_mask)
                pg = torch.zeros_like(weights.pg)
                for results in ranks:
                    own, own_mask, own_pg, counts = results[2 * number + exchange]
                    mask[own], pg[own] = own_mask, own_pg
                    assert counts == (
                        expected.num_selected,
                        expected.num_eligible,
                        expected.saturated,
                        expected.threshold,
                    )
                assert torch.equal(mask, expected.mask)
                torch.testing.assert_close(pg, weights.pg, rtol=1e-6, atol=0)
