"""Real rows of every training set through prepare, and the counts that are known of them."""

import json
import os
import subprocess
import sys

import pytest
from pyarrow import parquet

from gmts.data.rows import read_rows
from gmts.data.sources import make_source
from gmts.stages.prepare import prepare
from gmts.stages.workspace import Workspace
from tests.support.sections import params
from tests.support.shared import shared_file

MATH = {
    "aime24": "aime24/test.jsonl",
    "aime25": "aime25/aime25.jsonl",
    "amc23": "amc23/test.jsonl",
    "math500": "math500/test.jsonl",
    "minerva": "minerva_math/test.jsonl",
    "olympiadbench": "olympiadbench/test.jsonl",
}
CHOICE = {"csqa": "csqa/dev_rand_split.jsonl", "csqa2": "csqa2/CSQA2_dev.json.gz"}
CODE = {"humaneval": "humaneval/HumanEval.jsonl.gz", "mbpp": "mbpp/mbpp.jsonl"}
DAPO = "data/dapo17k/dapo_math_17k.parquet"
BOXED = r"Please reason step by step, and put your final answer within \boxed{}."
KODCODE = "data/kodcode_demo/Verified_KodCode_{}_Complete.json"


def settings(name, file, benchmarks, **changes):
    return params(
        data__source="local",
        data__set=name,
        data__bad_rows="skip",
        data__files={"train": str(shared_file(file)), "validation": None, "test": None},
        data__decontaminate=[
            f"{benchmark}={shared_file(f'data/{path}')}" for benchmark, path in benchmarks.items()
        ],
        **changes,
    )


def near_questions(source):
    found = source.contamination["benchmarks"]["train"]
    return {name: findings["near_questions"] for name, findings in found.items()}


def test_17_of_the_40_amc23_questions_are_found_in_dapo_and_removed(tmp_path):
    found = settings("dapo17k", DAPO, {"amc23": MATH["amc23"]})
    source = make_source(found.data, tmp_path)
    assert near_questions(source) == {"amc23": 17}
    findings = source.contamination["benchmarks"]["train"]["amc23"]
    assert findings["questions"] == 40
    assert findings["near_rows"] == 21  # some of the 17 are there in two wordings
    removed = {finding["question"] for finding in findings["near"]}
    assert not removed & {question.question for question in source("train")}
    pool = source.facts["pools"]["train"]
    assert pool["rows_read"] == 17917
    assert pool["conflicting_questions_removed"] == 12
    assert pool["bad_rows_skipped"] == 0
    # 17,185 distinct questions by case, spaces and Unicode forms, less the 12.
    assert pool["rows"] == 17173
    assert pool["duplicates_removed"] == 720


@pytest.mark.slow
def test_what_the_math_sets_hold_of_the_math_benchmarks(tmp_path):
    dapo = make_source(settings("dapo17k", DAPO, MATH).data, tmp_path)
    assert near_questions(dapo) == {
        "aime24": 0,
        "aime25": 0,
        "amc23": 17,
        "math500": 20,
        "minerva": 0,
        "olympiadbench": 57,
    }
    # Looser thresholds find those that were reworded to ask for an integer.
    loose = {"overlap": 0.6, "similarity": 0.95, "contaminated": "remove", "repeated": "remove"}
    found = settings("dapo17k", DAPO, {"amc23": MATH["amc23"]}, data__near=loose)
    assert near_questions(make_source(found.data, tmp_path)) == {"amc23": 24}
    math = make_source(settings("math12k", "data/math12k_rebuilt/train.jsonl", MATH).data, tmp_path)
    assert near_questions(math) == {
        "aime24": 0,
        "aime25": 0,
        "amc23": 0,
        "math500": 21,
        "minerva": 0,
        "olympiadbench": 5,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file", "benchmarks", "read", "bad"),
    [
        ("math12k", "data/math12k_rebuilt/train.jsonl", {"math500": MATH["math500"]}, 12000, 2),
        ("dapo17k", DAPO, {"amc23": MATH["amc23"]}, 17917, 0),
        ("csqa", "data/csqa/train_rand_split.jsonl", CHOICE, 9741, 0),
        ("kodcode", KODCODE.format("prefill_200_1741214325"), CODE, 80, 0),
        ("kodcode", KODCODE.format("algorithm_100_1741212598"), CODE, 15, 0),
        ("kodcode_light_rl", KODCODE.format("leetcode_100_1741214688"), CODE, 14, 0),
    ],
)
def test_every_row_of_a_set_becomes_a_prompt_or_is_accounted_for(
    tmp_path, name, file, benchmarks, read, bad
):
    code = name.startswith("kodcode")
    template = "{question}\n```python\n{starter_code}\n```" if code else "{question}"
    sizes = {"train": 10**6, "validation": 2, "test": 2}
    changes = {f"data__{split}_rows": rows for split, rows in sizes.items()}
    found = settings(
        name,
        file,
        benchmarks,
        data__system_prompt=None if code else BOXED,
        data__user_prompt=template,
        data__vocabulary_size=2000,
        data__max_prompt_tokens=1024,
        **changes,
    )
    workspace = Workspace(tmp_path)
    result = prepare(found, workspace)
    manifest = json.loads((workspace.prepared_dir / "manifest.json").read_text())
    pool = manifest["pools"]["train"]
    assert (pool["rows_read"], pool["bad_rows_skipped"]) == (read, bad)
    rows = {s: read_rows(workspace.prepared_dir / f"{s}.parquet") for s in sizes}
    assert (len(rows["validation"]), len(rows["test"])) == (2, 2)
    counted = (
        sum(map(len, rows.values()))
        + sum(split["dropped_as_too_long"] for split in manifest["splits"].values())
        + pool["near_benchmarks"]
        + pool["near_earlier_rows"]
        + pool["conflicting_questions_removed"]
        + pool["duplicates_removed"]
        + pool["bad_rows_skipped"]
    )
    # Each contradicted question stands for two rows or more.
    assert 0 <= read - counted <= 2 * pool["conflicting_questions_removed"]
    assert manifest["overlap"] == dict.fromkeys(manifest["overlap"], 0)
    assert result.values["train files: rows read"] == read
    listed = json.loads((workspace.prepared_dir / "contamination.json").read_text())
    assert set(listed["benchmarks"]["train"]) == set(benchmarks)
    for row in rows["train"]:
        assert row.source == name
        assert "Answer:" not in row.messages[-1]["content"] or name != "dapo17k"
        assert not code or row.meta["tests"].strip()


PEAK = """
import resource, sys
from pathlib import Path
from gmts.data.sources import make_source
from tests.support.sections import params
files = {"train": sys.argv[1], "validation": None, "test": None}
config = params(data__source="local", data__set="dapo17k", data__files=files).data
pool = make_source(config, Path()).facts["pools"]["train"]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(pool["rows_read"], pool["rows"], round(peak))
"""


@pytest.mark.slow
def test_a_hundredfold_dapo_is_read_in_less_than_2_gib(tmp_path):
    table = parquet.read_table(shared_file(DAPO))
    path = tmp_path / "train.parquet"
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(100):
            writer.write_table(table)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    read, rows, peak_mib = map(int, done.stdout.split())
    assert (read, rows) == (1_791_700, 17173)
    assert peak_mib < 2048
