"""`gmts doctor`: whether this machine can do its part, and what to do where it cannot."""

import argparse
import importlib.metadata
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console

from flows.dvc import default_remote, remote_url
from flows.names import STAGES
from flows.pools import POOLS, pools_here, stage_pool
from gmts.config import load_params
from gmts.stages.machine import Finding, check_machine

_PINNED = ("prefect", "dvc")


def run(options: argparse.Namespace) -> int:
    """Print what was checked; the exit code is 1 if something is wrong.

    Raises:
        ValueError: If params.yaml or prefect.yaml is not valid.
    """
    root: Path = options.root
    device = load_params(root / "params.yaml").runtime.device
    findings = [*check_machine(root, device), _versions(root), _server(), _pools(root)]
    findings.append(_remote(root))
    console = Console(file=sys.stdout, soft_wrap=True)
    for finding in findings:
        mark = "[green]ok   [/]" if finding.good else "[red]WRONG[/]"
        console.print(f"{mark}  {finding.name:10}", end="")
        console.print(finding.found, markup=False)
        if finding.remedy:
            console.print(f"{'':17}-> {finding.remedy}", markup=False)
    return 0 if all(finding.good for finding in findings) else 1


def _versions(root: Path) -> Finding:
    pins = dict(
        line.partition("==")[::2]
        for line in (root / "constraints" / "cpu.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    found = {name: importlib.metadata.version(name) for name in _PINNED}
    wrong = [name for name in _PINNED if pins[name].split()[0] != found[name]]
    return Finding(
        name="versions",
        good=not wrong,
        found=", ".join(f"{name} {version}" for name, version in found.items()),
        remedy=f"constraints/cpu.txt pins other versions of {', '.join(wrong)}: `make install`"
        if wrong
        else "",
    )


def _server() -> Finding:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return Finding(
            name="server",
            good=True,
            found="PREFECT_API_URL is not set: `gmts run` starts a server for each run",
        )
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return Finding(name="server", good=True, found=f"{url} answers")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        return Finding(
            name="server",
            good=False,
            found=f"{url} does not answer: {error}",
            remedy="start it there with `gmts server`, or unset PREFECT_API_URL",
        )


def _pools(root: Path) -> Finding:
    here = pools_here()
    stages = [stage for stage in STAGES if stage_pool(stage, root) in here]
    named = "every pool" if here == set(POOLS) else f"pool {', '.join(sorted(here))}"
    return Finding(name="pools", good=True, found=f"{named}: {', '.join(stages)}")


def _remote(root: Path) -> Finding:
    name = default_remote(root)
    if name is None:
        alone = pools_here() == set(POOLS)
        return Finding(
            name="remote",
            good=alone,
            found="no default DVC remote" + (", none needed on one machine" if alone else ""),
            remedy="" if alone else "`dvc remote add --default --local NAME URL` on every machine",
        )
    url = remote_url(root, name)
    if "://" in url:
        return Finding(name="remote", good=True, found=f"{name}: {url} (not tried)")
    folder = (root / ".dvc" / url).resolve()
    good = os.access(folder if folder.exists() else folder.parent, os.W_OK)
    return Finding(
        name="remote",
        good=good,
        found=f"{name}: {folder}" + ("" if good else " cannot be written"),
        remedy="" if good else "mount it, or give yourself the right to write there",
    )
