"""How far training is: a bar on a terminal, a line in the log now and then elsewhere."""

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from tqdm import tqdm

logger = logging.getLogger(__name__)

_LINE_EVERY_S = 10.0


class Progress:
    """Progress over `total` steps of which `done` lie behind a resumed run."""

    def __init__(
        self,
        *,
        total: int,
        done: int,
        validation: float | None,
        watcher: Callable[[int, int, str], None] | None = None,
    ) -> None:
        """Start to show; `validation` is the newest accuracy.

        `watcher` is called now and with each step: the step, the total, a line for people.
        """
        self._watcher = watcher
        self._total = total
        self._first = done
        self._start = time.monotonic()
        self._last_line = self._start
        self._validation = validation
        self._bar = tqdm(total=total, initial=done, disable=None, desc="train", unit="step")
        self._watch(done, "starting")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Move to `step`; off a terminal log its reward, at most once in 10 s and at the end."""
        self._validation = metrics.get("validation/accuracy", self._validation)
        reward = metrics.get("reward/mean", float("nan"))
        self._bar.set_postfix(reward=f"{reward:.3f}", validation=_shown(self._validation))
        self._bar.update(step - self._bar.n)
        now = time.monotonic()
        text = f"reward {reward:.3f}, validation {_shown(self._validation)}"
        text += f", {self.eta(step, now)} left"
        self._watch(step, text)
        if self._bar.disable and (now - self._last_line >= _LINE_EVERY_S or step == self._total):
            self._last_line = now
            logger.info("step %d/%d: %s", step, self._total, text)

    def _watch(self, step: int, text: str) -> None:
        if self._watcher is not None:
            self._watcher(step, self._total, text)

    def eta(self, step: int, now: float) -> str:
        """Return the time left as m:ss, from the mean pace of this process's own steps."""
        own = step - self._first
        if own <= 0:
            return "unknown time"
        seconds = round((now - self._start) / own * (self._total - step))
        return f"{seconds // 60}:{seconds % 60:02d}"


def _shown(accuracy: float | None) -> str:
    return "none yet" if accuracy is None else f"{accuracy:.3f}"
