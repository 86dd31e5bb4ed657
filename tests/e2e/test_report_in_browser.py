"""The report page in a real browser that can resolve no host."""

import json
import shutil
import subprocess

import pytest

from gmts.analysis.curves import PANELS
from gmts.analysis.report import MODELS, write_report

pytestmark = pytest.mark.slow


def test_the_page_renders_offline(tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (.ci/setup installs it)")
    keys = {key for panel in PANELS for key in panel.series.values()}
    records = [{"step": step} | dict.fromkeys(keys, step / 9) for step in range(10)]
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    scores = {"samples": 16, "questions": 9, "average": interval, "pass_at": {"1": interval},
              "truncated": 0.0, "no_answer": 0.0}  # fmt: skip
    for folder in ("train", "report", *(f"evaluation/{model}" for model in MODELS)):
        (tmp_path / folder).mkdir(parents=True)
    for model in MODELS:
        (tmp_path / "evaluation" / model / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "train" / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "train" / "summary.json").write_text("{}")
    write_report(
        tmp_path / "report",
        title="a run",
        train_dir=tmp_path / "train",
        evaluation_dir=tmp_path / "evaluation",
    )
    done = subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=2000",
            f"--screenshot={tmp_path / 'page.png'}", "--window-size=1200,2400", "--dump-dom",
            (tmp_path / "report" / "index.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout.count("<svg") == len(PANELS) + 1
    assert "<title>a run</title>" in done.stdout
