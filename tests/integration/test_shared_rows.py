"""Every row of the training sets and benchmarks: read, rendered as a prompt, its gold judged."""

import json

import pytest

from gmts.data.manifest import read_manifest
from gmts.data.rows import read_rows
from gmts.data.sources import make_source
from gmts.evaluation.benchmarks import read_rows_of
from gmts.evaluation.config import BenchmarkConfig
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.template import PromptTemplate
from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool
from gmts.stages.inspect import inspect_data
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from tests.integration.test_benchmark_stage import FILES
from tests.support.exams import entry
from tests.support.sections import params
from tests.support.shared import shared_file

CODE_FILES = {
    "humaneval": "humanevalplus/HumanEvalPlus.jsonl.gz",
    "mbpp": "mbppplus/MbppPlus.jsonl.gz",
}
BOXED = r"Put your final answer within \boxed{}."
OWN = {"question": "question", "answer": "answer", "id": None, "sha256": None}
NAMED = {
    "csqa": "csqa/train_rand_split.jsonl",
    "math12k": "math12k_rebuilt/train.jsonl",
    "dapo17k": "dapo17k/dapo_math_17k.parquet",
}


def gsm8k(folder, part):
    """Write GSM8K with its answers alone, which the release has behind #### after a solution."""
    lines = shared_file(f"data/gsm8k/{part}.jsonl").read_text(encoding="utf-8").splitlines()
    path = folder / f"gsm8k-{part}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in map(json.loads, lines):
            answer = row["answer"].rsplit("#### ", 1)[1]
            file.write(json.dumps({"question": row["question"], "answer": answer}) + "\n")
    return str(path)


def settings(name, folder, **changes):
    """Return the parameters under which a training set is read; benchmarks are left to others."""
    test, fields, known = None, OWN, name
    if name == "gsm8k":
        train, test, known = gsm8k(folder, "train"), gsm8k(folder, "test"), None
    elif name == "csqa2":
        train = str(shared_file("data/csqa2/CSQA2_train.json.gz"))
        test, known = str(shared_file("data/csqa2/CSQA2_dev.json.gz")), None
        fields = OWN | {"id": "id"}
    else:
        train = str(shared_file(f"data/{NAMED[name]}"))
    return params(
        **{
            "data__source": "local",
            "data__set": known,
            "data__task": name,
            "data__fields": fields,
            "data__bad_rows": "skip",
            "data__files": {"train": train, "validation": None, "test": test},
            "data__decontaminate": [],
            "rewards__scorer": "choice" if name.startswith("csqa") else "math",
        }
        | changes
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # rows, broken ones, repeated ones, contradicted questions, what is left
        ("gsm8k", (7473, 0, 0, 0, 7473)),
        ("csqa", (9741, 0, 0, 0, 9741)),
        ("csqa2", (9264, 0, 5, 0, 9259)),
        ("math12k", (12000, 2, 2, 0, 11996)),  # two rows of the release have no answer
        ("dapo17k", (17917, 0, 720, 12, 17173)),
    ],
)
def test_the_gold_answer_of_every_training_row_is_right(tmp_path, name, counts):
    keep = {"overlap": 0.85, "similarity": 0.95, "contaminated": "keep", "repeated": "keep"}
    given = settings(name, tmp_path, data__near=keep)
    source = make_source(given.data, tmp_path)
    pool = source.facts["pools"]["train"]
    names = (
        "rows_read", "bad_rows_skipped", "duplicates_removed", "conflicting_questions_removed",
        "rows",
    )  # fmt: skip
    assert tuple(pool[key] for key in names) == counts
    questions = list(source("train"))
    jobs = [
        Job(
            id=question.question[:80],
            response=rf"So the answer is $\boxed{{{question.answer}}}$.",
            ground_truth=question.answer,
            meta=question.meta,
        )
        for question in questions
    ]
    config = PoolConfig(workers=2, deadline_s=4.0, memory_mib=1024)
    with RewardPool(given.rewards.scorer, config) as judges:
        verdicts = judges.score_all(jobs)
    wrong = [(j.ground_truth, v.reason) for j, v in zip(jobs, verdicts, strict=True) if not v.score]
    assert (len(jobs), wrong) == (counts[-1], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "train", "test", "repeated"),
    [
        ("gsm8k", 7422, 1319, 1),
        ("csqa2", 9206, 2540, 3),  # one of the 2,541 is there in two spellings
    ],
)
def test_own_files_are_prepared_and_every_prompt_is_rendered(tmp_path, name, train, test, repeated):
    files = {"gsm8k": gsm8k(tmp_path, "test"), "csqa2": shared_file(f"data/{FILES['csqa2']}")}
    sizes = {"train": 10**6, "validation": 50, "test": 10**6}
    given = settings(
        name,
        tmp_path,
        data__decontaminate=[f"{name}={files[name]}"],
        data__system_prompt=BOXED,
        data__vocabulary_size=2000,
        data__max_prompt_tokens=1024,
        **{f"data__{split}_rows": rows for split, rows in sizes.items()},
    )
    workspace = Workspace(tmp_path)
    prepare(given, workspace)
    manifest = read_manifest(workspace.prepared_dir)
    pool = manifest["pools"]["train"]
    found = {split: manifest["splits"][split]["rows"] for split in sizes}
    assert found == {"train": train, "validation": 50, "test": test}
    assert (pool["near_benchmarks"], pool["near_earlier_rows"]) == (0, repeated)
    assert train + 50 + repeated == pool["rows"]
    assert manifest["overlap"] == dict.fromkeys(manifest["overlap"], 0)
    rows = read_rows(workspace.prepared_dir / "train.parquet")
    seen = inspect_data(given, workspace, "train", limit=len(rows)).rows
    for row, shown in zip(rows, seen, strict=True):
        text = "".join(piece.text for piece in shown.prompt)
        assert (shown.id, text[: len(BOXED)]) == (row.id, BOXED)
        assert len(row.messages) <= shown.num_tokens <= 1024


@pytest.mark.parametrize("name", [*FILES, *CODE_FILES])
def test_every_row_of_a_benchmark_becomes_a_prompt_that_gives_its_text_back(tmp_path, name):
    path = str(shared_file(f"data/{(FILES | CODE_FILES)[name]}"))
    config = BenchmarkConfig(**entry(path, custom=None))
    rows = read_rows_of(name, config, tmp_path).rows
    texts = ["\n".join(message["content"] for message in row.messages) for row in rows]
    template = PromptTemplate.of(build_tokenizer(texts, 512), "tokenizer")
    for row in rows:
        ids = template.encode(row.messages)
        assert template.tokenizer.decode(ids) == template.render(row.messages)
        assert template.render(row.messages).endswith(f"{row.messages[-1]['content']}\n")


def test_a_release_of_aime24_that_repeats_each_question_is_refused(tmp_path):
    path = str(shared_file("data/aime24_dapo/aime-2024.parquet"))
    config = BenchmarkConfig(**entry(path, custom=None))
    with pytest.raises(ValueError, match=r"aime-2024\.parquet:1: .* \(benchmark aime24\)"):
        read_rows_of("aime24", config, tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("csqa", "csqa/test_rand_split_no_answers.jsonl"),
        ("csqa2", "csqa2/CSQA2_test_no_answers.json.gz"),
    ],
)
def test_a_test_set_without_answers_is_refused_at_its_first_row(tmp_path, name, file):
    path = shared_file(f"data/{file}")
    test = str(shared_file(f"data/{FILES[name]}"))
    files = {"train": str(path), "validation": None, "test": test}
    given = settings(name, tmp_path, data__files=files, data__bad_rows="refuse")
    with pytest.raises(ValueError, match=rf"{path.name}:1: answer\w* must be non-empty text"):
        make_source(given.data, tmp_path)
