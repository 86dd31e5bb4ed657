"""What the loop carries from step to step, and the random streams it draws from.

No generator is kept: every draw has its own seed, derived from the run's seed, the name of the
stream and a counter. So a resumed run needs the counters only, and validating more often cannot
move training's randomness.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Self

import torch
from torch import Tensor, nn

from gmts.trainers.standalone.groups import Group


@dataclass(slots=True, kw_only=True)
class Best:
    """The policy with the highest validation accuracy so far; of equals the earliest."""

    step: int
    accuracy: float
    weights: dict[str, Tensor]
    """Copies on the CPU, keyed as in `unique_weights`."""


@dataclass(slots=True, kw_only=True)
class LoopState:
    """Counters, groups held over and the best policy; with weights and moments, the whole run."""

    step: int = 0
    """Rollout batches trained on."""
    draws: int = 0
    """Questions drawn; numbers the groups and, times the group size, the samples."""
    rollout_batches: int = 0
    """Calls of the sampler; several per step under dynamic sampling."""
    optimizer_steps: int = 0
    """Mini-batches seen, those without signal included."""
    no_signal_steps: int = 0
    """Mini-batches after which weights and moments were left as they were."""
    accuracy: float | None = None
    """Of the newest validation."""
    carried: list[Group] = field(default_factory=list)
    """Mixed groups beyond a full batch, used first in the next step."""
    best: Best | None = None

    def counters(self) -> dict[str, Any]:
        """Return what is neither a tensor nor a group, as JSON values."""
        names = (
            "step",
            "draws",
            "rollout_batches",
            "optimizer_steps",
            "no_signal_steps",
            "accuracy",
        )
        best = None
        if self.best is not None:
            best = {"step": self.best.step, "accuracy": self.best.accuracy}
        return {name: getattr(self, name) for name in names} | {"best": best}

    @classmethod
    def restored(
        cls,
        counters: Mapping[str, Any],
        carried: list[dict[str, Any]],
        best_weights: dict[str, Tensor] | None,
    ) -> Self:
        """Return the state behind `counters()`, `packed_groups()` and the best weights."""
        numbers = {name: value for name, value in counters.items() if name != "best"}
        best = None
        if counters["best"] is not None and best_weights is not None:
            best = Best(**counters["best"], weights=best_weights)
        return cls(**numbers, carried=[Group.unpacked(group) for group in carried], best=best)

    def packed_groups(self) -> list[dict[str, Any]]:
        """Return the carried groups as plain values and tensors."""
        return [asdict(group) for group in self.carried]


def stream_seed(seed: int, stream: str, counter: int = 0) -> int:
    """Return a 63-bit seed for draw number `counter` of `stream` in the run with `seed`."""
    digest = hashlib.sha256(f"{seed}/{stream}/{counter}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def drawn_questions(*, seed: int, num_rows: int, first: int, count: int) -> list[int]:
    """Return the rows of draws `first` to `first + count - 1`.

    Every epoch visits each row once, in an order of its own.
    """
    rows = []
    for draw in range(first, first + count):
        epoch, place = divmod(draw, num_rows)
        rows.append(_epoch_order(seed, num_rows, epoch)[place])
    return rows


@lru_cache(maxsize=2)
def _epoch_order(seed: int, num_rows: int, epoch: int) -> tuple[int, ...]:
    order = list(range(num_rows))
    random.Random(stream_seed(seed, "questions", epoch)).shuffle(order)
    return tuple(order)


def unique_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers, tied ones once, sharing memory with `model`."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach()
    return weights


def copied_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of `unique_weights` on the CPU."""
    return {name: tensor.cpu().clone() for name, tensor in unique_weights(model).items()}


def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Overwrite the model's weights in place.

    Raises:
        ValueError: If the names differ from the model's.
    """
    own = unique_weights(model)
    if own.keys() != weights.keys():
        odd = sorted(own.keys() ^ weights.keys())
        raise ValueError(f"stored weights must have the model's names, got {odd[:3]} on one side")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])
