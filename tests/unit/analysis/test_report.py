import json

import pytest

from gmts.analysis.curves import PANELS, curve, read_metrics
from gmts.analysis.report import MODELS, write_report


@pytest.fixture
def run_outputs(tmp_path):
    train, evaluation = tmp_path / "train", tmp_path / "evaluation"
    train.mkdir()
    keys = {key for panel in PANELS for key in panel.series.values()}
    lines = [json.dumps({"step": step} | dict.fromkeys(keys, step / 4)) for step in range(5)]
    (train / "metrics.jsonl").write_text("\n".join(lines))
    (train / "summary.json").write_text(json.dumps({"best_step": 3, "note": "<b>&"}))
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    scores = {"samples": 16, "questions": 200, "average": interval, "pass_at": {"1": interval}}
    for model in MODELS:
        (evaluation / model).mkdir(parents=True)
        text = json.dumps(scores | {"truncated": 0.1, "no_answer": 0.25})
        (evaluation / model / "scores.json").write_text(text)
    return train, evaluation


def report(tmp_path, name, outputs):
    folder = tmp_path / name
    folder.mkdir()
    write_report(folder, title="a < b", train_dir=outputs[0], evaluation_dir=outputs[1])
    return folder


def test_the_page_is_self_contained_and_escapes_its_values(tmp_path, run_outputs):
    page = (report(tmp_path, "r", run_outputs) / "index.html").read_text()
    assert "<script" not in page
    assert 'src="http' not in page
    assert "<link" not in page
    assert "a &lt; b" in page
    assert "&lt;b&gt;&amp;" in page
    assert page.count("<svg") == len(PANELS) + 1
    assert "50.0% [40.0%, 60.0%]" in page


def test_benchmarks_and_what_training_held_of_them_are_on_the_page_if_there_are_any(
    tmp_path, run_outputs
):
    plain = (report(tmp_path, "plain", run_outputs) / "index.html").read_text()
    assert "enchmarks" not in plain
    score = {"value": 0.25, "low": 0.125, "high": 0.5}
    line = {"benchmark": "mbpp", "measure": "plus", "questions": 378}
    lines = [line | dict.fromkeys(("initial", "last", "best"), score)]
    found = {"train": {"amc23": {"near_questions": 17, "questions": 40, "near_rows": 24}}}
    (tmp_path / "full").mkdir()
    write_report(
        tmp_path / "full", title="t", train_dir=run_outputs[0], evaluation_dir=run_outputs[1],
        benchmarks=lines, contamination=found,
    )  # fmt: skip
    page = (tmp_path / "full" / "index.html").read_text()
    cells = ["mbpp", "plus", *["25.0% [12.5%, 50.0%]"] * 3, "378"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "<td>amc23</td><td>train</td><td>17</td><td>40</td><td>24</td>" in page


def test_every_panel_is_written_as_png_and_svg(tmp_path, run_outputs):
    plots = report(tmp_path, "r", run_outputs) / "plots"
    names = {panel.name for panel in PANELS} | {"scores"}
    assert {file.name for file in plots.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    }


def test_the_same_run_gives_the_same_bytes(tmp_path, run_outputs):
    first, second = (report(tmp_path, name, run_outputs) for name in ("a", "b"))
    for file in sorted(first.rglob("*.*")):
        assert file.read_bytes() == (second / file.relative_to(first)).read_bytes()


def test_a_missing_score_names_the_file(tmp_path, run_outputs):
    (run_outputs[1] / "last" / "scores.json").unlink()
    with pytest.raises(ValueError, match=r"last/scores\.json cannot be read"):
        report(tmp_path, "r", run_outputs)


def test_a_broken_metrics_line_is_named_with_its_number(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2 is not valid JSON"):
        read_metrics(path)


def test_a_curve_leaves_out_steps_without_a_value():
    records = [{"step": 1, "a": 0.5}, {"step": 2}, {"step": 3, "a": None}, {"step": 4, "a": 0.25}]
    assert curve(records, "a") == ([1.0, 4.0], [0.5, 0.25])
