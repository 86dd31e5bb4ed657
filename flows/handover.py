"""Prefect's run context across a process boundary, so that a stage is a subflow of its pipeline."""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager

import cloudpickle
from prefect.context import hydrated_context, serialize_context

_VARIABLE = "GMTS_PARENT_RUN"


def context_variable() -> dict[str, str]:
    """Return the environment entry that hands the current run to a child process."""
    pickled = cloudpickle.dumps(serialize_context())
    return {_VARIABLE: base64.b64encode(pickled).decode()}


@contextmanager
def parent_run() -> Iterator[None]:
    """Enter the run that the parent process handed over, if it handed one."""
    encoded = os.environ.pop(_VARIABLE, None)
    if encoded is None:
        yield
        return
    with hydrated_context(cloudpickle.loads(base64.b64decode(encoded))):
        yield
