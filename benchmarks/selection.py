"""Exact selection against sorting: `python benchmarks/selection.py`.

1,000 responses of 2,000 tokens, ratio 0.2, one thread. gmts is the whole of select_tokens: checks,
top-k, ties by hash, counts and threshold. The baselines only turn scores into a mask: one stable
sort (ties by position, which favours the first responses), torch.topk (ties in no defined order),
and two stable sorts, by tie key and then by score, which give the set that gmts gives.

Milliseconds are the least of REPEATS runs, taken in turn. Memory is the growth of the process's
peak resident size over one call in a fresh process, divided by the size of the scores; the output
mask is a quarter of them.
"""

import ctypes
import math
import multiprocessing
import platform
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from gmts.batch import TokenBatch
from gmts.selection.config import Scope, SelectionConfig
from gmts.selection.scores import Scores
from gmts.selection.select import select_tokens
from gmts.selection.ties import tie_keys, tie_states

ROWS, COLUMNS, RATIO, REPEATS = 1_000, 2_000, 0.2, 7
SPEED_LIMIT, MEMORY_LIMIT = 3.0, 3.0


def distributions() -> dict[str, Tensor]:
    """Return scores [ROWS, COLUMNS] as training has them, with heavy ties, and all equal."""
    generator = torch.Generator().manual_seed(0)
    shape = (ROWS, COLUMNS)
    entropy = torch.exp(math.log(0.01) + 5 * torch.randn(shape, generator=generator)).clamp_max(4)
    advantage = 2 * torch.rand(shape, generator=generator)
    advantage[torch.rand(ROWS, generator=generator) < 0.45] = 0
    training = advantage * entropy
    ties = torch.where(torch.rand(shape, generator=generator) < 1 / 3, 0.3, training)
    return {
        "training-like": training,
        "a third tied": ties,
        "all equal": torch.full(shape, 0.5),
    }


def gmts(scores: Tensor, scope: Scope) -> Callable[[], Tensor]:
    """Return the selection that training uses, its input ready."""
    mask = torch.ones(scores.shape, dtype=torch.bool)
    batch = TokenBatch(
        response_ids=mask,
        response_mask=mask,
        old_log_probs=scores,
        ref_log_probs=None,
        advantages=torch.zeros(len(scores)),
        sample_ids=torch.arange(len(scores)),
        group_ids=torch.arange(len(scores)) // 16,
    )
    config = SelectionConfig(
        score="gmts", ratio=RATIO, side="top", scope=scope, score_policy="current", custom=None
    )
    scored = Scores(values=scores, eligible=scores > 0)
    return lambda: select_tokens(scored, batch, config, seed=0, step=0).mask


def _mask(scores: Tensor, chosen: Tensor) -> Tensor:
    mask = torch.zeros(scores.numel(), dtype=torch.bool)
    mask[chosen] = True
    return mask.view_as(scores)


def stable_sort(scores: Tensor) -> Tensor:
    """Return the mask of the first k of one stable sort."""
    k = math.ceil(RATIO * scores.numel())
    return _mask(scores, scores.flatten().sort(descending=True, stable=True).indices[:k])


def two_stable_sorts(scores: Tensor) -> Tensor:
    """Return the mask of the first k by score and then by tie key."""
    k = math.ceil(RATIO * scores.numel())
    states = tie_states(torch.arange(len(scores)), seed=0, step=0)
    keys = tie_keys(states[:, None], torch.arange(scores.shape[1])[None]).flatten()
    order = (keys ^ torch.iinfo(torch.int64).min).sort(stable=True).indices
    by_score = scores.flatten()[order].sort(descending=True, stable=True).indices
    return _mask(scores, order[by_score[:k]])


def topk(scores: Tensor) -> Tensor:
    """Return the mask of torch.topk."""
    k = math.ceil(RATIO * scores.numel())
    return _mask(scores, scores.flatten().topk(k, sorted=False).indices)


METHODS: dict[str, Callable[[Tensor], Callable[[], Tensor]]] = {
    "gmts": lambda scores: gmts(scores, "batch"),
    "gmts, by group": lambda scores: gmts(scores, "group"),
    "one stable sort": lambda scores: lambda: stable_sort(scores),
    "two stable sorts": lambda scores: lambda: two_stable_sorts(scores),
    "torch.topk": lambda scores: lambda: topk(scores),
}
"""From scores to a function that selects."""


def times(scores: Tensor) -> dict[str, float]:
    """Return milliseconds per method."""
    best = dict.fromkeys(METHODS, math.inf)
    ready = {name: method(scores) for name, method in METHODS.items()}
    for _ in range(REPEATS):
        for name, method in ready.items():
            start = time.perf_counter()
            method()
            best[name] = min(best[name], 1000 * (time.perf_counter() - start))
    return best


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def _grow(name: str, scores: Tensor, pipe: Connection) -> None:
    torch.set_num_threads(1)
    METHODS[name](scores[:4, :100])()
    method = METHODS[name](scores)
    # Pages that were freed but not given back would be used again and not count.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what is resident now
    before = _resident("VmRSS")
    method()
    pipe.send(1024 * (_resident("VmHWM") - before) / scores.nbytes)


def memory(name: str, scores: Tensor) -> float:
    """Return how far a fresh process grows, in sizes of the scores; NaN where Linux is not."""
    if sys.platform != "linux":
        return math.nan
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_grow, args=(name, scores, sender))
    process.start()
    growth: float = receiver.recv()
    process.join()
    return growth


def main() -> int:
    """Print the tables and whether the limits hold; return 1 if they do not."""
    torch.set_num_threads(1)
    print(
        f"{ROWS * COLUMNS:,} float32 scores, ratio {RATIO}; torch {torch.__version__}, "
        f"{torch.get_num_threads()} thread, Python {platform.python_version()}, "
        f"{platform.machine()}\n"
    )
    print(f"{'scores':14} {'method':18} {'ms':>8} {'sort / it':>10} {'memory':>8} {'same set':>9}")
    holds = True
    for kind, scores in distributions().items():
        growth = {name: memory(name, scores) for name in METHODS}
        milliseconds = times(scores)
        exact = two_stable_sorts(scores) & (scores > 0)
        for name, method in METHODS.items():
            speed = milliseconds["one stable sort"] / milliseconds[name]
            same = "" if name == "gmts, by group" else str(torch.equal(method(scores)(), exact))
            print(
                f"{kind:14} {name:18} {milliseconds[name]:8.0f} {speed:9.1f}x "
                f"{growth[name]:7.2f}x {same:>9}"
            )
            if name == "gmts":
                holds &= same == "True" and not growth[name] > MEMORY_LIMIT
                holds &= kind != "training-like" or speed >= SPEED_LIMIT
    print(
        f"\nlimits: training-like scores at least {SPEED_LIMIT}x as fast as one stable sort, "
        f"memory at most {MEMORY_LIMIT}x the scores everywhere, the set exact: "
        f"{'held' if holds else 'NOT HELD'}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
