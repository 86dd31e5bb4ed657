"""`gmts deploy`, `status`, `doctor`, `server`, `worker`: each calls `python -m flows`."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from gmts.cli.pipeline import environment
from gmts.cli.workplace import clone_root

Root = Annotated[Path, typer.Option("--root", help="The clone to work in.", show_default="here")]


def deploy(
    gpu_slots: Annotated[
        int | None,
        typer.Option("--gpu-slots", help="Stages that may hold a GPU at once; 1 at first."),
    ] = None,
    root: Root = Path(),
) -> None:
    """Set the Prefect server at PREFECT_API_URL up; can be repeated.

    It gets the pools cpu and gpu, a limit on GPU stages, what prefect.yaml deploys, and automations
    that end lost runs and, if GMTS_NOTIFY is an http(s) or mailto(s) URL, tell of failures there.
    """
    _call("deploy", root, *([] if gpu_slots is None else ["--gpu-slots", str(gpu_slots)]))


def status(root: Root = Path()) -> None:
    """Say what runs where, on the Prefect server at PREFECT_API_URL."""
    _call("status", root)


def doctor(root: Root = Path()) -> None:
    """Check this machine, and say what to do where something is wrong."""
    _call("doctor", root)


def server(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 4200,
    root: Root = Path(),
) -> None:
    """Keep a Prefect server running, with its UI and scheduler, until interrupted."""
    _call("server", root, "--host", host, "--port", str(port))


def worker(
    pool: Annotated[
        str | None,
        typer.Argument(help="cpu or gpu: serve only this pool and send other stages elsewhere."),
    ] = None,
    root: Root = Path(),
) -> None:
    """Take runs from the Prefect server at PREFECT_API_URL, until interrupted."""
    _call("worker", root, *([] if pool is None else [pool]))


COMMANDS = (deploy, status, doctor, server, worker)


def _call(name: str, root: Path, *arguments: str) -> None:
    folder = clone_root(root)
    command = [sys.executable, "-m", "flows", name, "--root", str(folder), *arguments]
    code = subprocess.run(command, cwd=folder, env=environment(), check=False).returncode
    if code:
        raise typer.Exit(code)
