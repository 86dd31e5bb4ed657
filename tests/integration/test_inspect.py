"""`gmts inspect` on a prepared folder and on results that a benchmark wrote."""

import gzip
import json
import shutil
import sys
from types import SimpleNamespace

import pytest

from gmts.cli import main
from gmts.config import ConfigError, parse_params
from gmts.config.load import read_yaml
from gmts.config.presets import change
from gmts.evaluation.results import read_results
from gmts.files import file_sha256, write_json
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.folder import save_model
from gmts.models.template import PromptTemplate
from gmts.stages.benchmark import benchmark
from gmts.stages.inspect import inspect_data, inspect_eval, inspect_rewards
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from gmts.trainers.warmstart.model import build_model
from tests.support.exams import entry, exam_params, own_file
from tests.support.tiny_run import put_initial, tiny_model, tiny_params, tiny_workspace

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUESTION = "{}只鸡有多少只脚？ \\frac{{{}}}{{2}}, \x1b[31mred"


@pytest.fixture
def gmts(capsys, monkeypatch):
    """Return a function that runs `gmts inspect` as in a pipe: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gmts", "inspect", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return SimpleNamespace(code=ended.value.code, **capsys.readouterr()._asdict())

    return run


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    """A clone whose data are prepared for a model with a chat template."""
    root = tmp_path_factory.mktemp("clone")
    shutil.copytree(repository / "configs", root / "configs")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(repository / name, root / name)
    rows = [{"problem": QUESTION.format(i, i), "answer": str(2 * i)} for i in range(30, 50)]
    (root / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    known = [row["problem"] for row in rows] + ["system\nCount.", "user", "assistant"]
    tokenizer = build_tokenizer(known, 300)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHAT
    (root / "model").mkdir()
    model = build_model(tiny_params().warmstart, tokenizer, 0)
    template = PromptTemplate.of(tokenizer, "tokenizer")
    save_model(root / "model", model, tokenizer, template, {})
    changes = [
        "model.path=model", "data.source=local", "data.set=math12k", "data.max_prompt_tokens=200",
        "data.files.train=rows.jsonl", "data.train_rows=100", "data.validation_rows=3",
        "data.test_rows=4", "data.system_prompt=Count.", "rewards.scorer=math",
        "data.near.repeated=keep",
    ]  # fmt: skip
    (root / "params.yaml").write_text(change(root, changes))
    prepare(parse_params(read_yaml(root / "params.yaml")), Workspace(root))
    return root


def params_of(clone, **changes):
    tree = read_yaml(clone / "params.yaml")
    tree["model"] |= changes
    return parse_params(tree)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Five questions, four responses each, right where they begin with an a; twice."""
    workspace = tiny_workspace(tmp_path_factory.mktemp("results"))
    params = exam_params({"amc23": entry(own_file(workspace.root, 5))})
    folders = []
    for seed in (0, 1):
        put_initial(workspace, tiny_model(seed))
        benchmark(params, workspace, "amc23", "initial")
        folder = workspace.benchmarks_dir / "amc23" / "initial"
        folders.append(folder.rename(folder.with_name(f"model{seed}")))
    return folders


def test_a_row_is_the_token_text_of_its_prompt_with_special_tokens_apart(clone):
    found = inspect_data(params_of(clone), Workspace(clone), "train", limit=2)
    assert (found.num_rows, len(found.rows)) == (13, 2)
    row = found.rows[0]
    text = "".join(piece.text for piece in row.prompt)
    number = int(row.ground_truth) // 2
    assert text == (
        "<|im_start|>system\nCount.<|im_end|>\n"
        f"<|im_start|>user\n{QUESTION.format(number, number)}<|im_end|>\n<|im_start|>assistant\n"
    )
    special = [piece.text for piece in row.prompt if piece.special]
    assert special == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    assert (row.source, row.kind) == ("math12k", "math")
    # <eos> and the bytes of the Chinese characters: more tokens than pieces.
    assert row.num_tokens > len(row.prompt)


def test_one_row_is_found_by_its_id_in_its_split_only(clone):
    workspace, params = Workspace(clone), params_of(clone)
    wanted = inspect_data(params, workspace, "validation", limit=3).rows[2]
    alone = inspect_data(params, workspace, "validation", limit=1, row_id=wanted.id)
    assert alone.rows == [wanted]
    with pytest.raises(ConfigError, match="--id must be a row of test, e"):
        inspect_data(params, workspace, "test", limit=1, row_id=wanted.id)


def test_rows_that_were_prepared_for_another_template_are_refused(clone):
    with pytest.raises(ConfigError, match=r"must be the one that data/prepared was made with"):
        inspect_data(params_of(clone, template="plain"), Workspace(clone), "train", limit=1)


def test_rows_are_printed_whole_and_plain_to_a_pipe_and_marked_on_a_terminal(
    gmts, clone, monkeypatch
):
    done = gmts("data", "--split", "test", "--rows", "1", "--root", clone)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 of 4 rows of test\n")
    assert "<|im_start|>system\nCount.<|im_end|>\n<|im_start|>user\n" in done.out
    assert "只鸡有多少只脚？" in done.out
    assert "\\x1b[31mred" in done.out  # what a terminal would obey is shown instead
    assert "\x1b" not in done.out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    marked = gmts("data", "--rows", "1", "--root", clone)
    assert "\x1b[1;7;35m<|im_start|>\x1b[0m" in marked.out


def test_reasons_are_counted_over_all_responses_and_responses_chosen_by_verdict(results):
    found = inspect_rewards(results[0])
    stored = [
        (q.row.id, n, r.text, v.correct)
        for q in read_results(results[0])[1]
        for n, (r, v) in enumerate(zip(q.responses, q.verdicts, strict=True))
    ]
    right = sum(correct for *_, correct in stored)
    assert 0 < right < 20
    assert [(r.reason, r.responses, r.right) for r in found.reasons] == [("own scorer", 20, right)]
    assert [(r.id, r.sample, r.text, r.correct) for r in found.responses] == stored
    chosen = inspect_rewards(results[0], correct=True).responses
    assert [r.text for r in chosen] == [text for *_, text, _ in stored if text.startswith("a")]
    assert len(inspect_rewards(results[0], correct=False, reason="own").responses) == 20 - right
    with pytest.raises(ConfigError, match="--reason must begin one of own scorer, got 'timeout'"):
        inspect_rewards(results[0], reason="timeout")


def rewritten(source, folder, rights):
    """Copy results; question i has so many right responses of four, cut ones after the first."""
    folder.mkdir()
    lines = gzip.decompress((source / "responses.jsonl.gz").read_bytes()).splitlines()
    stored = [json.loads(line) for line in lines]
    for line, right in zip(stored, rights, strict=True):
        for number, response in enumerate(line["responses"]):
            correct = number < right
            answer = "7" if correct else None if number == 3 else "8"
            response |= {"correct": correct, "extracted": answer, "finished": number == 0}
    text = "\n".join(map(json.dumps, stored))
    (folder / "responses.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    scores = json.loads((source / "scores.json").read_text())
    scores["responses_sha256"] = file_sha256(folder / "responses.jsonl.gz")
    scores["average"] = {"value": sum(rights) / 20, "low": 0.125, "high": 0.875}
    write_json(folder / "scores.json", scores)
    return folder


def test_the_worst_questions_come_first_with_their_most_frequent_answers(results, tmp_path):
    folder = rewritten(results[0], tmp_path / "one", [4, 1, 0, 3, 1])
    found = inspect_eval(folder)
    assert [q.id for q in found.questions] == [f"amc23-{i}" for i in (3, 2, 5, 4, 1)]
    assert [q.right for q in found.questions] == [0, 0.25, 0.25, 0.75, 1]
    worst, second = found.questions[:2]
    assert (worst.question, worst.ground_truth, worst.truncated) == ("What is 2?", "2", 0.75)
    answers = [(a.text, a.responses, a.correct) for a in worst.answers]
    assert answers == [("8", 3, False), (None, 1, False)]
    answers = [(a.text, a.responses, a.correct) for a in second.answers]
    assert answers == [("8", 2, False), ("7", 1, True), (None, 1, False)]


def test_two_folders_are_compared_by_what_their_questions_changed(gmts, results, tmp_path):
    before = rewritten(results[0], tmp_path / "before", [4, 1, 0, 3, 1])
    after = rewritten(results[0], tmp_path / "after", [3, 1, 4, 3, 3])
    found = inspect_eval(after, against=before).comparison
    assert [(c.question.id, c.before, c.after) for c in found.changed] == [
        ("amc23-3", 0.0, 1.0),
        ("amc23-5", 0.25, 0.75),
        ("amc23-1", 1.0, 0.75),
    ]
    assert (found.common, found.other) == (5, 0)
    done = gmts("eval", after, "--against", before, "--limit", "1")
    assert (done.code, done.err) == (0, "")
    assert "average@4   70.0%  [12.5, 87.5]\n" in done.out
    assert "against     45.0%  [12.5, 87.5]\n" in done.out
    assert "2 questions better, 1 worse, 2 the same\n" in done.out
    assert "amc23-3  right 0.0% -> 100.0%  cut 75.0%  ground truth 2\n" in done.out
    assert "answers  4 x 7 (right)\nWhat is 2?\n" in done.out
    assert "amc23-5" not in done.out


def test_other_questions_under_the_same_numbers_are_not_compared(results, tmp_path):
    workspace = tiny_workspace(tmp_path)
    (tmp_path / "other.jsonl").write_text('{"problem": "Who is 0?", "answer": 0.0}')
    benchmark(exam_params({"amc23": entry("other.jsonl")}), workspace, "amc23", "initial")
    folder = workspace.benchmarks_dir / "amc23" / "initial"
    with pytest.raises(ConfigError, match="which shares none"):
        inspect_eval(results[0], against=folder)


def test_verdicts_are_readable_in_a_pipe(gmts, results, tmp_path):
    folder = rewritten(results[0], tmp_path / "one", [4, 1, 0, 3, 1])
    done = gmts("rewards", folder, "--wrong", "--limit", "2")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split() == ["own", "scorer", "20", "100.0%", "9"]
    assert "2 of 11 such responses\n" in done.out
    wrong = "wrong  reason own scorer  extracted 8  ground truth 1\n"
    assert f", cut\n{wrong}" in done.out
    assert "\x1b" not in done.out
    scores = gmts("eval", folder, "--limit", "1")
    assert "the worst 1 of 5 questions\n\namc23-3  right 0.0%" in scores.out


@pytest.mark.parametrize("command", ["rewards", "eval"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "scores.json").unlink(), "must be a folder with scores.json"),
        (lambda f: (f / "scores.json").write_text("{"), "is not valid JSON"),
        (lambda f: (f / "responses.jsonl.gz").unlink(), "responses.jsonl.gz must exist"),
        (lambda f: (f / "responses.jsonl.gz").write_bytes(b"x"), "must have the sha256"),
    ],
)
def test_damaged_results_end_with_code_2_and_one_message(
    gmts, results, tmp_path, command, damage, message
):
    folder = shutil.copytree(results[0], tmp_path / "damaged")
    damage(folder)
    done = gmts(command, folder)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_the_folder_above_names_those_below_it(results):
    with pytest.raises(ValueError, match=r"below it there are \S+model0, \S+model1$"):
        inspect_eval(results[0].parent)


def test_scores_without_their_numbers_are_refused(results, tmp_path):
    folder = shutil.copytree(results[0], tmp_path / "damaged")
    scores = json.loads((folder / "scores.json").read_text())
    del scores["average"], scores["responses_sha256"]
    write_json(folder / "scores.json", scores)
    with pytest.raises(ValueError, match=r"must have the sha256 None that scores\.json records"):
        inspect_eval(folder)
    scores["responses_sha256"] = file_sha256(folder / "responses.jsonl.gz")
    write_json(folder / "scores.json", scores)
    with pytest.raises(ValueError, match=r"scores\.json must hold average, got none"):
        inspect_eval(folder)


def test_data_that_are_not_there_or_damaged_end_with_code_2(gmts, clone, tmp_path):
    for name in ("params.yaml", "dvc.yaml", "configs"):
        (tmp_path / name).symlink_to(clone / name)
    done = gmts("data", "--root", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "manifest.json cannot be read" in done.err
    shutil.copytree(clone / "data", tmp_path / "data")
    (tmp_path / "data" / "prepared" / "test.parquet").write_bytes(b"x")
    done = gmts("data", "--split", "test", "--root", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "test.parquet must have the sha256" in done.err
