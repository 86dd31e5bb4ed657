"""`python -m flows.engine` is `python -m prefect.engine` in the worker's clone.

It ends when the worker above it is gone, and is in the roster, from before the first line of a flow
is imported.
"""

import os
import runpy
from pathlib import Path

from flows.lifeline import watch_ancestors

ROOT_VARIABLE = "GMTS_ROOT"
"""Environment variable: the clone whose worker started this process."""

if __name__ == "__main__":
    watch_ancestors()
    os.chdir(os.environ[ROOT_VARIABLE])
    from flows.roster import hold  # imports Prefect

    hold(os.environ["PREFECT__FLOW_RUN_ID"], Path.cwd())
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
