"""`python -m tests.screenshots http://127.0.0.1:4200 FOLDER` photographs the Prefect UI.

The server must have been set up with `gmts deploy` and have finished a run of the pipeline.
"""

import json
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests.support.browser import browser


def ask(address: str, path: str, body: dict | None = None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{address}/api/{path}", data=data, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def newest_run(address: str) -> str:
    """Return the id of the newest finished run of the whole pipeline."""
    runs = ask(address, "flow_runs/filter", {
        "flows": {"name": {"any_": ["pipeline"]}},
        "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}, "name": {"any_": ["publish"]}},
        "sort": "END_TIME_DESC", "limit": 1,
    })  # fmt: skip
    if not runs:
        sys.exit(f"{address} must have a finished run of the pipeline, got none")
    return runs[0]["id"]


def main(address: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run = newest_run(address)
    pipeline = ask(address, "deployments/name/pipeline/pipeline")["id"]
    found = ask(address, "artifacts/filter", {"flow_runs": {"id": {"any_": [run]}}})
    artifacts = {artifact["key"]: artifact["id"] for artifact in found}
    pages = {
        "deployments": ("deployments", "pipeline", "train"),
        "form": (f"deployments/deployment/{pipeline}/run", "overrides", "preset", "target"),
        "run": (f"runs/flow-run/{run}", "Completed", "Task runs"),
        "scores": (f"artifacts/artifact/{artifacts['scores']}", "average@", "initial"),
        "lineage": (f"artifacts/artifact/{artifacts['lineage']}", "params", "code"),
    }
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as page:
        for name, (path, *wanted) in pages.items():
            page.open(f"{address}/{path}", *wanted)
            if name == "run":
                page.click("Task Runs", "prepare", "publish")
            page.screenshot(folder / f"ui-{name}.png")
            print(folder / f"ui-{name}.png")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if shutil.which("chromium") is None:
        sys.exit("chromium must be installed, got none")
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]))
