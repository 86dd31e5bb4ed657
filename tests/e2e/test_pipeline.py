"""The whole pipeline in a clone, through the command line, Prefect and DVC."""

import json
import re
import shutil

import pytest
from ruamel.yaml import YAML
from transformers import AutoModelForCausalLM, AutoTokenizer

from gmts.files import file_sha256
from tests.support.clones import TINY, gmts, make_clone, run

STAGES = ["prepare", "warmstart", "train", "evaluate", "report", "publish"]


def stages_run(output):
    return re.findall(r"Running stage '(\w+)'", output)


def lock(clone):
    return YAML(typ="safe").load((clone / "dvc.lock").read_text())["stages"]


@pytest.fixture(scope="module")
def finished(repository, tmp_path_factory):
    """A clone in which `gmts run` has finished once, and what it printed."""
    clone = make_clone(repository, tmp_path_factory.mktemp("pipeline"))
    return clone, gmts(clone, "run", "--preset", "smoke", *TINY).stdout


def test_every_stage_runs_once_in_order_and_the_summary_is_printed(finished):
    clone, output = finished
    assert stages_run(output) == STAGES
    assert re.search(r"step 4/4: reward", output)
    summary = json.loads((clone / "reports" / "summary.json").read_text())
    assert f"gain             {100 * summary['gain']:+.1f} points" in output
    assert re.search(r"\d+ s in all: \d+ s in the stages, \d+ s around them", output)
    assert summary["metric"] == "average@4"
    assert summary["questions"] == 10
    assert summary["changed_keys"]
    for score in (summary["before"], summary["after"], summary["best"]):
        assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
    for stage in ("prepare", "warmstart", "train", "evaluate-initial", "report", "publish"):
        cost = summary["stages"][stage]
        assert cost["seconds"] >= 0
        assert cost["peak_memory_mib"] > 50
    assert (clone / summary["report"]).is_file()
    assert len(summary["data_hash"]) == len(summary["params_hash"]) == 64
    assert re.fullmatch(r"\S+ \([0-9a-f]{40}(-dirty)?\)", summary["code_version"])


def test_the_published_folder_loads_and_its_manifest_is_true(finished):
    clone, _ = finished
    [folder] = (clone / "published").iterdir()
    AutoTokenizer.from_pretrained(folder)
    AutoModelForCausalLM.from_pretrained(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        assert file_sha256(folder / name) == entry["sha256"]
    assert {"model.safetensors", "tokenizer.json", "README.md", "params.yaml"} <= set(
        manifest["files"]
    )


def test_a_second_run_finds_everything_up_to_date(finished):
    clone, _ = finished
    before = (clone / "dvc.lock").read_bytes()
    output = gmts(clone, "run").stdout
    assert stages_run(output) == []
    assert "Everything is up to date." in output
    assert "gain" in output
    assert "up to date" in run(["dvc", "repro"], clone).stdout
    assert (clone / "dvc.lock").read_bytes() == before


def test_the_prefect_pipeline_calls_finished_stages_cached(finished):
    clone, _ = finished
    output = run(["python", "-m", "flows", "pipeline"], clone).stdout
    assert output.count("Cached") == len(STAGES)
    assert stages_run(output) == []


def test_git_sees_no_output_and_dvc_leaves_gitignore_alone(finished):
    clone, _ = finished
    changed = run(["git", "status", "--porcelain"], clone).stdout.split("\n")
    assert sorted(filter(None, changed)) == [" M params.yaml", "?? dvc.lock"]


def test_nothing_is_left_in_the_users_home(finished):
    clone, _ = finished
    left = {path.name for path in (clone.parent / "home").iterdir()}
    assert not left & {".prefect", ".dvc"}


def test_an_override_reruns_exactly_the_stages_that_read_it(finished):
    clone, _ = finished
    dry = ["dvc", "repro", "--dry"]
    for override, expected in (
        # publish shows all parameters; what lies between runs if its inputs turn out different
        ("selection.ratio=0.3", ["train", "publish"]),
        ("evaluate.seed=5", ["evaluate", "publish"]),
        ("data.max_prompt_tokens=65", ["prepare", "publish"]),
        ("publish.license=mit", ["publish"]),
    ):
        before = (clone / "params.yaml").read_bytes()
        gmts(clone, "config", "set", override)
        assert stages_run(run(dry, clone).stdout) == expected
        (clone / "params.yaml").write_bytes(before)
    assert stages_run(run(dry, clone).stdout) == []


@pytest.mark.slow
def test_dvc_exp_run_overrides_as_dvc_users_know_it(finished):
    clone, _ = finished
    run(["git", "add", "dvc.lock", "params.yaml"], clone)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    run(["git", *identity, "commit", "-qm", "done"], clone)
    output = run(["dvc", "exp", "run", "-S", "publish.license=mit"], clone).stdout
    assert stages_run(output) == ["publish"]
    [folder] = (clone / "published").iterdir()
    assert "license: mit" in (folder / "README.md").read_text()


def test_runs_are_listed_shown_restored_and_deleted(finished):
    clone, _ = finished
    listed = gmts(clone, "runs", "list").stdout
    [name] = re.findall(r"chain-sum-gmts-[0-9a-f]{8}", listed)
    assert "before training" in gmts(clone, "runs", "show", name).stdout
    text = (clone / "params.yaml").read_text()
    gmts(clone, "config", "set", "selection.ratio=0.9")
    gmts(clone, "runs", "restore", name)
    assert (clone / "params.yaml").read_text() == text
    assert "Would delete" in gmts(clone, "runs", "delete", name).stdout
    gmts(clone, "runs", "delete", name, "--yes")
    assert "No finished run yet" in gmts(clone, "runs", "list").stdout


def test_a_checkpoint_answers_a_question(finished):
    clone, _ = finished
    question = "State the final answer to the following arithmetic problem: 3 - 5 - 0 ="
    arguments = ("--model", "models/last", "--max-tokens", "5")
    first = gmts(clone, "generate", question, *arguments).stdout
    assert first == gmts(clone, "generate", question, *arguments).stdout
    several = gmts(clone, "generate", question, *arguments, "-n", "3", "-t", "1").stdout
    assert several.strip()


def test_a_failing_stage_ends_with_code_2_its_cause_and_nothing_half_written(finished):
    clone, _ = finished
    before = (clone / "params.yaml").read_bytes()
    lines = (clone / "dvc.lock").read_bytes()
    done = gmts(clone, "run", "data.source=local", "data.files.train=no.jsonl",
                "data.files.test=no.jsonl", check=False)  # fmt: skip
    assert done.returncode == 2
    assert "data.files.test must name a file, got" in done.stdout.splitlines()[-1]
    assert (clone / "dvc.lock").read_bytes() == lines
    assert not list((clone / "data").glob(".prepared*"))
    (clone / "params.yaml").write_bytes(before)
    shutil.rmtree(clone / "data", ignore_errors=True)
    output = run(["dvc", "repro"], clone).stdout
    assert stages_run(output) == []
    assert "checking out outputs" in output
