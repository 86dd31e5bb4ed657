"""`python -m flows.serve ...` is `prefect server start ...` that ends with the command above it."""

import argparse
import os
import runpy
import sys

from flows.lifeline import watch_ancestors


def run(options: argparse.Namespace) -> int:
    """Be a Prefect server with all its services, until a signal ends it."""
    url = f"http://{options.host}:{options.port}"
    sys.stderr.write(
        f"The UI is at {url}; for workers and commands: export PREFECT_API_URL={url}/api\n"
    )
    # Browsers reach the API where they got the page, by whatever name.
    os.environ.setdefault("PREFECT_SERVER_UI_API_URL", "/api")
    _start(["--host", options.host, "--port", options.port, "--analytics-off"])
    return 0


def _start(arguments: list[str]) -> None:
    sys.argv = ["prefect", "server", "start", *arguments]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    os.dup2(1, 2)  # one log for both
    watch_ancestors()
    _start(sys.argv[1:])
