"""`python -m flows.serve ...` is `prefect server start ...` that ends with the command above it."""

import os
import runpy
import sys

from flows.lifeline import watch_ancestors

if __name__ == "__main__":
    os.dup2(1, 2)  # one log for both
    watch_ancestors()
    sys.argv = ["prefect", "server", "start", *sys.argv[1:]]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
