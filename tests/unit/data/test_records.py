import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from gmts.data.pool import canonical_sha256, collect
from gmts.data.questions import Question
from gmts.data.records import BadRowError, BadRows, read_records

ROWS = [{"question": "a?", "answer": "1"}, {"question": "b?", "answer": "2"}]


def read(path, policy="refuse", **options):
    bad = BadRows(policy=policy)
    return list(read_records(path, "data.files.train", bad, **options)), bad


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


LINES = "\n".join(json.dumps(row) for row in ROWS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES),
        ("a.txt", LINES),
        ("a.json", LINES),
        ("a.json", "  \n" + json.dumps(ROWS)),
        ("a.json.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("a.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
    ],
)
def test_rows_are_the_same_from_every_kind_of_file_and_numbered_from_1(tmp_path, name, content):
    path = write(tmp_path / name, content)
    assert read(path)[0] == [(f"{path}:1", ROWS[0]), (f"{path}:2", ROWS[1])]


def test_parquet_rows_are_read_batch_by_batch_with_the_columns_asked_for(tmp_path):
    rows = [{"question": str(i), "answer": "x", "other": i} for i in range(9000)]
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    found, _ = read(path, columns=("answer", "question", "absent"))
    assert len(found) == 9000
    assert found[8999] == (f"{path}:9000", {"question": "8999", "answer": "x"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not valid JSON"),
        (b'{"question": "\xff"}', "is not valid JSON"),
        (b"3", "must be an object with named fields, got 3"),
    ],
)
def test_a_broken_line_is_refused_by_name_or_skipped_and_listed(tmp_path, line, reason):
    path = write(tmp_path / "a.jsonl", b'{"a": 1}\n' + line + b'\n\n{"a": 2}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl:2 {reason}.*data\.bad_rows: skip"):
        read(path)
    found, bad = read(path, "skip")
    assert found == [(f"{path}:1", {"a": 1}), (f"{path}:4", {"a": 2})]
    assert len(bad.found) == 1
    assert bad.found[0].startswith(f"{path}:2 {reason}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", None, r"data\.files\.train must name a file, got .*a\.jsonl: there is none"),
        ("a.parquet", b"PAR1", r"data\.files\.train: .*a\.parquet cannot be read"),
        ("a.jsonl.gz", b"nothing", r"data\.files\.train: .*a\.jsonl\.gz cannot be read"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 999, mtime=0)[:-9], r"a\.jsonl\.gz cannot be read"),
        ("a.json", b'[{"a": 1}', r"a\.json is not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_even_when_rows_are_skipped(
    tmp_path, name, content, message
):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, "skip")


def normalise(record):
    if not record.get("answer"):
        raise BadRowError("answer must be non-empty text, got nothing")
    return Question(
        id=record.get("id"), question=record["question"], answer=record["answer"], meta={}
    )


def pool(rows, policy="skip", **options):
    places = ((f"f:{number}", row) for number, row in enumerate(rows, start=1))
    return collect(places, normalise, BadRows(policy=policy), **options)


def test_repetitions_are_left_out_and_contradicted_questions_dropped():
    rows = [
        {"question": "What is 2?", "answer": "2"},
        {"question": "what  is 2?", "answer": "2"},
        {"question": "What is 3?", "answer": "3"},
        {"question": "What is 3?", "answer": "three"},
        {"question": "What is 3?", "answer": "3"},
        {"question": "What is 4?", "answer": ""},
    ]
    found = pool(rows)
    assert [question.question for question in found.questions] == ["What is 2?"]
    assert (found.rows_read, found.duplicates) == (6, 2)
    conflict = found.conflicts[0]
    assert conflict.answers == ("3", "three")
    assert conflict.places == ("f:3", "f:4")
    assert found.bad_rows == ["f:6: answer must be non-empty text, got nothing"]


def test_solutions_that_differ_are_no_contradiction():
    rows = [{"question": "Add.", "answer": "a+b"}, {"question": "Add.", "answer": "b+a"}]
    found = pool(rows, answer_is_text=False)
    assert [question.answer for question in found.questions] == ["a+b"]
    assert (found.duplicates, found.conflicts) == (1, [])


def test_an_id_that_two_rows_have_is_a_bad_row():
    rows = [
        {"id": "x", "question": "a", "answer": "1"},
        {"id": "x", "question": "b", "answer": "2"},
    ]
    assert pool(rows).bad_rows == ["f:2: id must be unique, got 'x', which f:1 has"]
    with pytest.raises(ValueError, match=r"f:2: id must be unique, got 'x', which f:1 has"):
        pool(rows, "refuse")


def test_the_canonical_hash_is_that_of_the_rows_as_json_lines():
    questions = [Question(id="i", question="é", answer="1", meta={"b": 1, "a": None})]
    # printf '["i", "é", "1", {"a": null, "b": 1}]\n' | sha256sum
    assert canonical_sha256(questions) == (
        "5f9bee371032a573d102545028efb884369dace973cc0be5a18a151796c4d555"
    )
    assert pool(ROWS).sha256 == pool([*ROWS, ROWS[0]]).sha256
    assert pool(ROWS).sha256 != pool(ROWS[::-1]).sha256
