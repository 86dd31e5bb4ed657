import json

import pytest
from ruamel.yaml import YAML

from gmts.files import file_sha256
from gmts.publishing.export import export
from gmts.publishing.manifest import Lineage


@pytest.fixture
def lineage():
    interval = {"value": 0.75, "low": 0.7, "high": 0.8}
    score = {"samples": 16, "questions": 200, "average": interval, "pass_at": {"1": interval}}
    return Lineage(
        schema_version=1,
        name="sums",
        preset="smoke",
        changed_keys=("selection.ratio",),
        base_model="tiny",
        base_weights_sha256="b" * 64,
        data_hash="d" * 64,
        data_manifest={"rows": 3},
        params={
            "objective": {"algorithm": "dapo"},
            "selection": {"score": "gmts", "side": "top", "ratio": 0.1, "scope": "batch"},
        },
        params_hash="p" * 64,
        code_version="0.1.0 (abc)",
        checkpoint="last",
        step=80,
        template_sha256="t" * 64,
        scores={"initial": score | {"truncated": 0.0}, "last": score | {"truncated": 0.5}},
    )


@pytest.fixture
def model_dir(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in (
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "model.safetensors",
    ):  # fmt: skip
        (folder / name).write_text(name)
    return folder


def test_the_card_shows_scores_with_intervals_and_the_whole_lineage(tmp_path, model_dir, lineage):
    folder = tmp_path / "out"
    folder.mkdir()
    export(model_dir, folder, lineage, license_name="apache-2.0", extra=[])
    card = (folder / "README.md").read_text()
    _, header, body = card.split("---\n", 2)
    assert YAML(typ="safe").load(header)["license"] == "apache-2.0"
    assert "| last | 75.0% [70.0, 80.0] | 75.0% [70.0, 80.0] | 50.0% |" in body
    assert "the top 10% of response tokens by the score `gmts`" in body
    for value in ("b" * 64, "d" * 64, "p" * 64, "t" * 64, "0.1.0 (abc)", "`selection.ratio`"):
        assert value in body


def test_the_manifest_lists_every_file_with_its_hash(tmp_path, model_dir, lineage):
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "params.yaml").write_text("a: 1\n")
    export(model_dir, folder, lineage, license_name="mit", extra=[tmp_path / "params.yaml"])
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {file.name for file in folder.iterdir()} - {"manifest.json"}
    assert set(manifest["files"]) == files
    assert manifest["files"]["config.json"]["sha256"] == file_sha256(folder / "config.json")
    assert manifest["params"]["hash"] == "p" * 64


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "model.safetensors"])
def test_an_incomplete_model_folder_is_refused(tmp_path, model_dir, lineage, name):
    (model_dir / name).unlink()
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"must hold"):
        export(model_dir, tmp_path / "out", lineage, license_name="mit", extra=[])
