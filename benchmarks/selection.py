"""Exact selection against a stable sort: `python benchmarks/selection.py`.

Two million scores |A E|, 45% of them 0, and the same with a third of them tied. The stable sort
orders ties by position, which favours the responses that stand first; ours orders them by a hash.
Seconds are the best of several runs in one process on one thread; memory is what the process's
peak resident size grows by, as a multiple of the scores' own 8 MB.
"""

import functools
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from gmts.selection.ties import tie_keys
from gmts.selection.topk import Candidates, top_k

COUNT, RATIO, REPEATS = 2_000_000, 0.2, 5


def scores(tied: bool) -> Tensor:
    """Return scores like those of a training batch."""
    generator = torch.Generator().manual_seed(0)
    entropy = torch.exp(math.log(0.01) + 5 * torch.randn(COUNT, generator=generator)).clamp_max(4)
    advantage = torch.rand(COUNT, generator=generator) * 2
    advantage[torch.rand(COUNT, generator=generator) < 0.45] = 0
    values = entropy * advantage
    if tied:
        values[torch.randperm(COUNT, generator=generator)[: COUNT // 3]] = 0.3
    return values


def measure(function: Callable[[], Tensor]) -> tuple[float, float]:
    """Return (best seconds, peak growth in bytes) of calling `function`."""
    function()
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_kib("VmRSS")
    function()
    growth = 1024.0 * (_peak_kib("VmHWM") - before)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), growth


def _peak_kib(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ValueError(f"/proc/self/status must name {name}")


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, {COUNT:,} float32 scores, ratio {RATIO}")
    print("| scores | method | ms | against the sort | memory / scores |")
    print("|---|---|---|---|---|")
    k = math.ceil(RATIO * COUNT)
    numbers = torch.arange(COUNT)
    for name, tied in (("few ties", False), ("a third tied", True)):
        values = scores(tied)
        candidates = Candidates(
            scores=values,
            ties=functools.partial(tie_keys, seed=0, step=0),
            sample_ids=numbers // 2048,
            positions=numbers % 2048,
        )
        methods: dict[str, Callable[[], Tensor]] = {
            "stable sort": lambda values=values: values.sort(descending=True, stable=True).indices[
                :k
            ],
            "topk (its ties are arbitrary)": lambda values=values: values.topk(k).indices,
            "gmts": lambda candidates=candidates: top_k(candidates, k, process_group=None),
        }
        baseline = 0.0
        for method, function in methods.items():
            seconds, growth = measure(function)
            baseline = baseline or seconds
            print(
                f"| {name} | {method} | {1000 * seconds:.0f} | {baseline / seconds:.1f}x | "
                f"{growth / (4 * COUNT):.1f} |"
            )


if __name__ == "__main__":
    main()
