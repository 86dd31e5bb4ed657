"""A benchmark is asked, judged, recorded, resumed and judged again."""

import gzip
import json
import shutil

import pytest

from gmts.config import ConfigError
from gmts.evaluation.benchmarks import BENCHMARKS, read_rows_of
from gmts.evaluation.config import BenchmarkConfig
from gmts.evaluation.results import read_results, read_scores
from gmts.evaluation.statistics import pass_at
from gmts.files import file_sha256
from gmts.rewards.scorer import make_scorer
from gmts.stages.benchmark import benchmark, make_exam
from gmts.stages.external import changed_inputs
from gmts.stages.rescore import rescore
from tests.support.exams import FIXED, entry, exam_params, own_file, text_workspace
from tests.support.shared import shared_file
from tests.support.tiny_run import put_initial, tiny_model, tiny_params, tiny_workspace

FILES = {
    "aime24": "aime24/test.jsonl",
    "aime25": "aime25/aime25.jsonl",
    "amc23": "amc23/test.jsonl",
    "math500": "math500/test.jsonl",
    "minerva": "minerva_math/test.jsonl",
    "olympiadbench": "olympiadbench/test.jsonl",
    "csqa": "csqa/dev_rand_split.jsonl",
    "csqa2": "csqa2/CSQA2_dev.json.gz",
}


@pytest.fixture(autouse=True)
def not_fixed_yet():
    FIXED.done = False
    yield
    FIXED.done = False


@pytest.fixture
def workspace(tmp_path):
    return tiny_workspace(tmp_path)


def run(workspace, *, changes=None, **settings):
    """Score the initial model on five questions; return the stage's result and the folder."""
    params = exam_params(
        {"amc23": entry(own_file(workspace.root, 5), **(changes or {}))}, **settings
    )
    return benchmark(params, workspace, "amc23", "initial"), folder_of(workspace)


def folder_of(workspace, name="amc23"):
    return workspace.benchmarks_dir / name / "initial"


def test_every_number_follows_from_the_stored_responses(workspace):
    result, folder = run(workspace)
    scores, questions = read_results(folder)
    data = gzip.decompress((folder / "responses.jsonl.gz").read_bytes())
    lines = [json.loads(line) for line in data.splitlines()]
    correct = [sum(r["text"].startswith("a") for r in line["responses"]) for line in lines]
    assert 0 < sum(correct) < 20
    assert scores["average"]["value"] == pytest.approx(sum(correct) / 20)
    assert scores["lm_eval_average"] == pytest.approx(sum(correct) / 20)
    assert scores["pass_at"]["1"]["value"] == pytest.approx(sum(correct) / 20)
    assert scores["pass_at"]["4"]["value"] == sum(c > 0 for c in correct) / 5
    cut = sum(not r["finished"] for line in lines for r in line["responses"])
    assert scores["truncated"] == cut / 20
    assert result.values["average"] == scores["average"]["value"]
    assert [q.row.ground_truth for q in questions] == list("01234")
    assert {q.row.meta["kind"] for q in questions} == {"math"}
    assert scores["data"]["local"] == {"amc.jsonl": file_sha256(workspace.root / "amc.jsonl")}


def test_hashes_follow_what_they_are_hashes_of(workspace):
    first = read_scores(run(workspace)[1])
    again = read_scores(run(workspace)[1])
    assert first == again
    names = {
        "weights_sha256", "task_sha256", "prompts_sha256", "data_sha256", "template_sha256",
        "responses_sha256", "rewards_sha256", "sampling_sha256",
    }  # fmt: skip
    assert {len(first[name]) for name in names} == {64}

    def changed(scores):
        return {name for name in names if scores[name] != first[name]}

    run(workspace, evaluate__question_limit=3)
    assert changed(read_scores(folder_of(workspace))) == {"prompts_sha256", "responses_sha256"}
    run(workspace, evaluate__max_response_tokens=5)
    assert changed(read_scores(folder_of(workspace))) == {
        "task_sha256", "sampling_sha256", "responses_sha256",
    }  # fmt: skip
    put_initial(workspace, tiny_model(seed=1))
    run(workspace)
    assert changed(read_scores(folder_of(workspace))) == {
        "weights_sha256", "sampling_sha256", "responses_sha256",
    }  # fmt: skip


def test_unchanged_weights_are_answered_from_the_cache_and_others_are_not(workspace):
    assert run(workspace)[0].values["sampled"] == 20
    assert run(workspace)[0].values["sampled"] == 0
    put_initial(workspace, tiny_model(seed=1))
    assert run(workspace)[0].values["sampled"] == 20


def test_a_greedy_benchmark_is_answered_once_with_the_most_probable_tokens(workspace):
    result, folder = run(workspace, changes={"greedy": True})
    scores, questions = read_results(folder)
    assert (scores["samples"], list(scores["pass_at"])) == (1, ["1"])
    assert result.values["sampled"] == 5
    greedy = [q.responses[0].text for q in questions]
    near = run(workspace, evaluate__temperature=1e-5, evaluate__samples=1, evaluate__pass_at=[1])[1]
    assert [q.responses[0].text for q in read_results(near)[1]] == greedy


def test_a_checkpoint_under_another_template_is_not_scored(workspace):
    file = workspace.initial_dir / "chat_template.jinja"
    file.write_text("Please: " + file.read_text())
    with pytest.raises(ConfigError, match="must be the one of training"):
        run(workspace)
    assert not folder_of(workspace).exists()
    assert not workspace.stage_file("benchmark-amc23-initial").exists()


def test_a_benchmark_that_params_do_not_name_is_refused(workspace):
    with pytest.raises(ConfigError, match=r"one of params\.yaml \(none\), got amc23"):
        benchmark(tiny_params(), workspace, "amc23", "initial")


def test_rescoring_judges_the_same_responses_and_says_what_changed(workspace, monkeypatch):
    _, folder = run(workspace)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    monkeypatch.setattr("torch.nn.Module.__call__", None)  # no model may be asked
    shutil.rmtree(workspace.initial_dir)
    same = rescore(folder, workspace.root, rewards=None)
    assert same.changes == []
    assert same.after["average"] == same.before["average"]
    FIXED.done = True
    done = rescore(folder, workspace.root, rewards=None)
    assert done.folder == workspace.root / "reports" / "rescored" / "benchmarks/amc23/initial"
    scores, questions = read_results(done.folder)
    texts = [r.text for q in questions for r in q.responses]
    repaired = [text for text in texts if "a" in text and not text.startswith("a")]
    assert repaired
    assert len(done.changes) == len(repaired)
    assert {(c["before"]["correct"], c["after"]["correct"]) for c in done.changes} == {
        (False, True)
    }
    assert scores["average"]["value"] == pytest.approx(sum("a" in text for text in texts) / 20)
    assert scores["rescored_from"]["scores_sha256"] == file_sha256(folder / "scores.json")
    assert json.loads((done.folder / "changes.json").read_text()) == done.changes
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_results_elsewhere_are_rescored_beside_themselves(workspace, tmp_path_factory):
    _, folder = run(workspace)
    copy = tmp_path_factory.mktemp("copy") / "run1"
    shutil.copytree(folder, copy)
    assert rescore(copy, workspace.root, rewards=None).folder == copy.with_name("run1-rescored")
    with pytest.raises(ValueError, match="its scores are kept"):
        rescore(copy, workspace.root, output=copy, rewards=None)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "responses.jsonl.gz").write_bytes(b"x"), "must have the sha256"),
        (lambda f: (f / "responses.jsonl.gz").unlink(), r"responses\.jsonl\.gz must exist"),
        (lambda f: (f / "scores.json").write_text("{}"), "schema_version must be 2, got None"),
        (lambda f: (f / "scores.json").unlink(), r"scores\.json cannot be read"),
    ],
)
def test_damaged_results_are_not_rescored(workspace, damage, message):
    _, folder = run(workspace)
    damage(folder)
    with pytest.raises(ValueError, match=message):
        rescore(folder, workspace.root, rewards=None)
    assert not (workspace.root / "reports" / "rescored").exists()


def test_recorded_rewards_of_another_version_are_refused_by_key(workspace):
    _, folder = run(workspace)
    recorded = read_scores(folder)["rewards"]
    with pytest.raises(ConfigError, match=r"rewards\.strict is not a known key"):
        rescore(folder, workspace.root, rewards=recorded | {"strict": True})


def test_a_changed_file_of_a_benchmark_makes_its_stage_due(workspace):
    assert changed_inputs(workspace.root, "benchmark") == []
    run(workspace)
    assert changed_inputs(workspace.root, "benchmark@amc23") == []
    own_file(workspace.root, 6)
    assert changed_inputs(workspace.root, "benchmark@amc23") == ["amc.jsonl"]
    assert changed_inputs(workspace.root, "benchmark") == ["amc.jsonl"]
    assert changed_inputs(workspace.root, "benchmark@csqa") == []


def smoke_workspace(root, name):
    """A random model of the smoke preset's size, with a tokenizer for the benchmark's text."""
    fields = dict.fromkeys(("repo", "revision", "files", "rows", "sha256", "custom"))
    path = shared_file(f"data/{FILES[name]}")
    config = BenchmarkConfig(**fields, path=str(path), greedy=False)
    rows = read_rows_of(name, config, root).rows[:8]
    return text_workspace(root, [m["content"] for row in rows for m in row.messages]), str(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FILES))
def test_every_text_benchmark_is_scored_on_a_model_of_the_smoke_presets_size(tmp_path, name):
    workspace, path = smoke_workspace(tmp_path, name)
    settings = {
        "evaluate__samples": 16,
        "evaluate__pass_at": [1, 4, 8, 16],
        "evaluate__max_response_tokens": 32,
        "evaluate__batch_size": 128,
        "evaluate__question_limit": 8,
    }
    result = benchmark(exam_params({name: entry(path)}, **settings), workspace, name, "initial")
    assert result.values["sampled"] == 128
    scores, questions = read_results(folder_of(workspace, name))
    assert (scores["questions"], scores["samples"]) == (8, 16)
    correct = [sum(r.text[:1] == "a" for r in q.responses) for q in questions]
    assert scores["average"]["value"] == pytest.approx(sum(correct) / 128)
    for k in (1, 4, 8, 16):
        expected = sum(pass_at(correct, 16, k)) / 8
        assert scores["pass_at"][str(k)]["value"] == pytest.approx(expected)
    assert all(r.num_tokens <= 32 for q in questions for r in q.responses)
    assert len({r.text for q in questions for r in q.responses}) > 100
    # The verdicts of its kind, on the same responses, and on its own right answers.
    by_kind = exam_params({name: entry(path, custom=None)}, **settings)
    assert benchmark(by_kind, workspace, name, "initial").values["sampled"] == 0
    scores, judged = read_results(folder_of(workspace, name))
    assert scores["rewards"]["scorer"] == BENCHMARKS[name].kind
    assert [q.responses for q in judged] == [q.responses for q in questions]
    scorer = make_scorer(make_exam(by_kind, workspace, name).rewards)
    for row in (q.row for q in judged):
        boxed = rf"So $\boxed{{{row.ground_truth}}}$."
        assert scorer(boxed, row.ground_truth, row.meta).correct
