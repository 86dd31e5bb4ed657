"""prepare, warmstart and evaluate as a run uses them, on a tiny model."""

import gzip
import json
import logging
from itertools import combinations

import pytest
import torch
from safetensors.torch import load_file, save_file

from gmts.files import file_sha256
from gmts.stages.evaluate import evaluate
from gmts.stages.prepare import prepare
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from tests.support.sections import small_params


def scores(workspace, model="initial"):
    return json.loads((workspace.evaluation_dir(model) / "scores.json").read_text())


def answers(workspace, model="initial"):
    path = workspace.evaluation_dir(model) / "responses.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("stages"))
    prepare(small_params(), workspace)
    warmstart(small_params(), workspace)
    return workspace


def test_preparing_twice_gives_the_same_bytes_and_a_true_manifest(workspace, tmp_path):
    again = Workspace(tmp_path)
    prepare(small_params(), again)
    names = {file.relative_to(again.prepared_dir) for file in again.prepared_dir.rglob("*.*")}
    assert {str(name) for name in names} >= {"train.parquet", "test.parquet", "manifest.json"}
    for name in names:
        first, second = workspace.prepared_dir / name, again.prepared_dir / name
        assert first.read_bytes() == second.read_bytes()
    manifest = json.loads((again.prepared_dir / "manifest.json").read_text())
    assert set(manifest["overlap"].values()) == {0}
    for split, rows in (("train", 40), ("validation", 5), ("test", 6)):
        entry = manifest["splits"][split]
        assert entry["rows"] == rows
        assert entry["sha256"] == file_sha256(again.prepared_dir / f"{split}.parquet")


def test_a_failed_prepare_leaves_the_old_data_and_nothing_else(workspace):
    before = sorted(str(path) for path in workspace.root.rglob("*"))
    with pytest.raises(ValueError, match=r"data.\w+_rows must be"):
        prepare(small_params(data__max_prompt_tokens=1), workspace)
    assert sorted(str(path) for path in workspace.root.rglob("*")) == before


def test_an_output_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "data").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="data"):
        prepare(small_params(), Workspace(tmp_path))


def test_the_warm_start_is_bit_identical_twice(workspace, tmp_path):
    again = Workspace(tmp_path)
    prepare(small_params(), again)
    warmstart(small_params(), again)
    first, second = ((w.initial_dir / "model.safetensors").read_bytes() for w in (workspace, again))
    assert first == second
    warmstart(small_params(seed=1), again)
    assert (again.initial_dir / "model.safetensors").read_bytes() != first


def test_a_corrupt_split_stops_the_warm_start(workspace, tmp_path):
    broken = Workspace(tmp_path)
    prepare(small_params(), broken)
    (broken.prepared_dir / "train.parquet").write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"train\.parquet must have the sha256"):
        warmstart(small_params(), broken)
    assert not broken.initial_dir.exists()


def test_any_local_model_can_be_the_start(workspace, tmp_path):
    given = Workspace(tmp_path)
    settings = {"model__path": str(workspace.initial_dir)}
    prepare(small_params(**settings), given)
    warmstart(small_params(**settings), given)
    initial = json.loads((given.initial_dir / "initial.json").read_text())
    assert not initial["built"]
    assert not (given.initial_dir / "model.safetensors").exists()
    evaluate(small_params(**settings), given, "initial")
    assert scores(given)["weights_sha256"] == initial["weights_sha256"]


def test_a_model_folder_without_chat_template_needs_the_plain_one(workspace, tmp_path):
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(workspace.initial_dir, folder)
    (folder / "chat_template.jinja").unlink()
    given = Workspace(tmp_path / "w")
    with pytest.raises(ValueError, match=r"set model\.template: plain"):
        prepare(small_params(model__path=str(folder)), given)
    plain = small_params(model__path=str(folder), model__template="plain")
    prepare(plain, given)
    warmstart(plain, given)
    initial = json.loads((given.initial_dir / "initial.json").read_text())
    assert initial["template_kind"] == "plain"


def test_scores_can_be_recomputed_from_the_stored_responses(workspace):
    evaluate(small_params(), workspace, "initial")
    found = scores(workspace)
    verdicts = [[r["correct"] for r in row["responses"]] for row in answers(workspace)]
    assert len(verdicts) == found["questions"] == 6
    assert all(len(row) == 4 for row in verdicts)
    average = sum(map(sum, verdicts)) / 24
    assert found["average"]["value"] == pytest.approx(average)
    assert found["lm_eval_average"] == pytest.approx(average)
    for k in (1, 2, 4):
        shares = [
            sum(map(any, combinations(row, k))) / len(list(combinations(row, k)))
            for row in verdicts
        ]
        assert found["pass_at"][str(k)]["value"] == pytest.approx(sum(shares) / 6)


def test_unchanged_weights_are_not_sampled_again_and_other_weights_at_the_path_are(workspace):
    settings = small_params(evaluate__seed=9)
    assert evaluate(settings, workspace, "initial").values["sampled"] == 24
    first = scores(workspace)
    assert evaluate(settings, workspace, "initial").values["sampled"] == 0
    assert scores(workspace) == first
    path = workspace.initial_dir / "model.safetensors"
    original = path.read_bytes()
    weights = {
        name: value + 0.5 * torch.ones_like(value) for name, value in load_file(path).items()
    }
    save_file(weights, path, metadata={"format": "pt"})
    try:
        assert evaluate(settings, workspace, "initial").values["sampled"] == 24
        assert scores(workspace)["weights_sha256"] != first["weights_sha256"]
    finally:
        path.write_bytes(original)


def test_an_interrupted_evaluation_goes_on_where_it_stopped(workspace):
    settings = small_params(evaluate__seed=77)
    evaluate(settings, workspace, "initial")
    whole = scores(workspace)
    cache = workspace.work_dir / "eval-cache"
    newest = max(cache.iterdir(), key=lambda folder: folder.stat().st_mtime)
    chunks = sorted(newest.iterdir())
    assert len(chunks) == 3  # two questions of four samples fill a batch of eight
    chunks[0].unlink()
    assert evaluate(settings, workspace, "initial").values["sampled"] == 8
    assert scores(workspace) == whole


def test_another_template_than_trainings_stops_the_evaluation(workspace):
    with pytest.raises(
        ValueError, match=r"must be the one of training \([0-9a-f]{64}\), got [0-9a-f]{64}"
    ):
        evaluate(small_params(model__template="plain"), workspace, "initial")


def test_a_budget_too_short_is_reported_beside_the_score_and_warned_of(workspace, caplog):
    with caplog.at_level(logging.WARNING, logger="gmts"):
        evaluate(small_params(evaluate__max_response_tokens=1), workspace, "initial")
    found = scores(workspace)
    assert found["truncated"] > 0.9
    assert found["no_answer"] == 1.0
    assert "were cut at evaluate.max_response_tokens (1)" in caplog.text
