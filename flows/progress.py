"""A bar on the run's page: how far training is."""

import contextvars
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from gmts.stages.workspace import StepWatcher

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0


class ProgressPage:
    """Shows the newest step, from a thread of its own so that training never waits for it."""

    def __init__(self) -> None:
        self._newest: tuple[int, int, str] | None = None
        self._shown: tuple[int, int, str] | None = None
        self._artifact: UUID | None = None
        self._ending = threading.Event()

    def watch(self, step: int, total: int, text: str) -> None:
        """Note how far training is."""
        self._newest = (step, total, text)

    def run(self) -> None:
        """Show what is newest until the end, and then once more."""
        while not self._ending.wait(_EVERY_SECONDS):
            self._show()
        self._show()

    def end(self) -> None:
        """Let `run` return."""
        self._ending.set()

    def _show(self) -> None:
        newest = self._newest
        if newest is None or newest == self._shown:
            return
        step, total, text = newest
        percent, description = 100 * step / total, f"step {step} of {total}: {text}"
        try:
            if self._artifact is None:
                made = create_progress_artifact(percent, "training", description)
                self._artifact = made  # type: ignore[assignment]  # a thread without an event loop
            else:
                update_progress_artifact(self._artifact, percent, description)
            self._shown = newest
        except httpx.HTTPError as error:  # the page lags; training goes on
            logger.warning("the Prefect server did not take the progress: %s", error)


@contextmanager
def progress_page() -> Iterator[StepWatcher]:
    """Yield what the train stage calls after each step; call inside a flow or task run."""
    page = ProgressPage()
    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(page.run,), name="progress", daemon=True
    )
    thread.start()
    try:
        yield page.watch
    finally:
        page.end()
        thread.join(timeout=10)
