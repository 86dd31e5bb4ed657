import json
import random
import subprocess
import sys

import pyarrow.parquet as parquet
import pytest

from gmts.data.rows import Row, read_rows, write_rows
from gmts.data.solutions import worked_solution
from gmts.data.sources import make_source
from gmts.data.splits import draw_splits, question_hash
from tests.support.sections import params

ROW = Row(
    id="a",
    messages=({"role": "user", "content": "é?"},),
    ground_truth="1",
    source="s",
    meta={"b": [1, {"c": None}]},
    solution=None,
)
PARITY = {
    "data__source": "custom",
    "data__task": "parity",
    "data__custom": "examples.parity:questions",
}


def draw(tmp_path, count_tokens=None, **changes):
    config = params(**changes).data
    return draw_splits(
        config, make_source(config, tmp_path), count_tokens=count_tokens, solve=lambda meta: None
    )


def write_lines(path, records):
    path.write_text("\n".join(json.dumps(record) for record in records))


def test_no_question_appears_twice_or_in_two_splits(tmp_path):
    splits = draw(tmp_path, data__train_rows=300, data__validation_rows=50, data__test_rows=60)
    texts = [row.messages[-1]["content"] for split in splits.values() for row in split.rows]
    assert len(texts) == 410
    assert len(set(texts)) == 410
    assert len({row.id for split in splits.values() for row in split.rows}) == 410


def test_case_spaces_and_unicode_forms_do_not_make_a_new_question():
    assert question_hash("What  is 2 + 2?") == question_hash(" what is 2 + 2?\n")
    assert question_hash("２") == question_hash("2")
    assert question_hash("2") != question_hash("3")


def test_a_long_prompt_is_dropped_and_counted(tmp_path):
    splits = draw(
        tmp_path,
        count_tokens=lambda messages: len(messages[-1]["content"].split("+")),
        data__train_rows=100,
        data__max_prompt_tokens=2,
    )
    assert splits["train"].too_long > 0
    assert all(row.messages[-1]["content"].count("+") < 2 for row in splits["train"].rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__task": "chain_summ"}, r"data.task must be .*'chain_summ'; did you mean chain_sum"),
        (
            {"data__task_options": {"min_term": 3}},
            r"data.task_options must be options of chain_sum",
        ),
        ({"data__task_options": {"min_terms": 0}}, r"min_terms must be positive"),
        (
            {"data__seeds": {"train": 5, "validation": 6, "test": 10**7}},
            r"data.seeds.validation must be at least \d+ above data.seeds.train \(5\), got 6",
        ),
        (
            {"data__user_prompt": "{nothing}"},
            r"data.user_prompt must use only the fields .*question",
        ),
        (
            {"data__task_options": {"min_terms": 2, "max_terms": 2, "max_digits": 1}},
            r"data.validation_rows must be filled .* 5000 questions are in another split",
        ),
        (
            {**PARITY, "data__custom": "examples.nothing:questions"},
            r"data.custom must name an import",
        ),
        (
            {**PARITY, "data__custom": "examples.parity:nothing"},
            r"data.custom must name a function",
        ),
        (
            {**PARITY, "data__custom": "examples.parity:reward"},
            r"data.custom must take 1 positional",
        ),
    ],
)
def test_a_source_that_cannot_be_used_is_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        draw(tmp_path, **changes)


def test_an_own_source_fills_the_splits(tmp_path):
    splits = draw(tmp_path, data__train_rows=30, data__test_rows=9, **PARITY)
    assert len(splits["train"].rows) == 30
    row = splits["test"].rows[0]
    assert row.source == "parity"
    assert row.ground_truth in ("even", "odd")


LOCAL = {"data__source": "local", "data__task": "own"}


def local(tmp_path, records, **changes):
    write_lines(tmp_path / "train.jsonl", records)
    write_lines(tmp_path / "test.jsonl", [{"question": "held out", "answer": "1"}])
    files = {"train": "train.jsonl", "validation": None, "test": "test.jsonl"}
    return draw(tmp_path, data__files=files, **(LOCAL | changes))


def test_local_files_become_splits_and_validation_is_held_out_of_train(tmp_path):
    records = [{"question": f"q{i}", "answer": str(i)} for i in range(10)]
    splits = local(tmp_path, [*records, {"question": "HELD  out", "answer": "2"}],
                   data__validation_rows=3)  # fmt: skip
    assert [row.ground_truth for row in splits["validation"].rows] == ["0", "1", "2"]
    assert [row.ground_truth for row in splits["train"].rows] == [str(i) for i in range(3, 10)]
    assert splits["train"].elsewhere == 4  # three in validation, one in test


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"train\.jsonl:2 is not valid JSON"),
        ("[1]", r"train\.jsonl:2 must be an object with question, answer"),
        ('{"question": "q"}', r"train\.jsonl:2: answer must be non-empty text, got None"),
        ('{"question": " ", "answer": "1"}', r"train\.jsonl:2: question must be non-empty text"),
        ('{"question": "q", "answer": 3}', r"train\.jsonl:2: answer must be non-empty text, got 3"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path, line, message):
    (tmp_path / "train.jsonl").write_text('{"question": "a", "answer": "b"}\n' + line)
    files = {"train": "train.jsonl", "validation": None, "test": "train.jsonl"}
    with pytest.raises(ValueError, match=message):
        draw(tmp_path, data__files=files, **LOCAL)


def test_a_missing_or_corrupt_file_is_named(tmp_path):
    files = {"train": "no.parquet", "validation": None, "test": "no.parquet"}
    with pytest.raises(ValueError, match=r"data.files.\w+ must name a file, got .*no\.parquet"):
        draw(tmp_path, data__files=files, **LOCAL)
    (tmp_path / "no.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ValueError, match=r"no\.parquet cannot be read"):
        draw(tmp_path, data__files=files, **LOCAL)


def test_a_split_without_rows_after_filtering_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"data.test_rows must be filled by at least one row"):
        draw(tmp_path, count_tokens=lambda messages: 99)


def test_rows_survive_parquet_and_equal_rows_give_equal_bytes(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        write_rows(tmp_path / name, [ROW, ROW])
    assert read_rows(tmp_path / "a.parquet") == [ROW, ROW]
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_split_file_that_is_missing_corrupt_or_empty_is_named(tmp_path):
    path = tmp_path / "train.parquet"
    with pytest.raises(ValueError, match=r"train\.parquet must exist: run the prepare stage"):
        read_rows(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"train\.parquet must be a parquet file"):
        read_rows(path)
    write_rows(tmp_path / "full.parquet", [ROW])
    parquet.write_table(parquet.read_table(tmp_path / "full.parquet").slice(0, 0), path)
    with pytest.raises(ValueError, match=r"train\.parquet must hold at least one row"):
        read_rows(path)


def test_worked_solutions_are_right_and_slips_carry_through():
    meta = {"metadata": {"source_dataset": "chain_sum", "expression": "3 - 5 - 2"}}
    right = worked_solution(meta, slip_probability=0.0, rng=random.Random(0))
    assert right == "3-5=-2\n-2-2=-4\n\\boxed{-4}"
    slipped = worked_solution(meta, slip_probability=1.0, rng=random.Random(0))
    first, second, answer = slipped.split("\n")
    result = int(first.removeprefix("3-5="))
    assert result != -2
    assert second.startswith(f"{result}-2=")
    assert int(second.split("=")[1]) != result - 2
    assert answer == f"\\boxed{{{second.split('=')[1]}}}"
    assert worked_solution({"metadata": {}}, slip_probability=0.0, rng=random.Random(0)) is None


def test_only_generated_tasks_need_reasoning_gym(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(
        ValueError, match=r"data\.source must be .* install the extra gmts\[smoke\]"
    ):
        draw(tmp_path)
    assert len(draw(tmp_path, **PARITY)["test"].rows) == 200
    program = "import sys, gmts.data.sources; print('reasoning_gym' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
