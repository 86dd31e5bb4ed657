import json

import pytest

from gmts.data.contamination import (
    Benchmark,
    decontaminated,
    read_benchmark,
    without_repetitions,
)
from gmts.data.questions import Question
from gmts.data.sources import make_source
from tests.support.sections import params

LONG = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyzäöü")


def question(text, answer="1", **fields):
    return Question(question=text, answer=answer, meta={}, **fields)


def near(**changes):
    return params(**{f"data__near__{name}": value for name, value in changes.items()}).data.near


BENCHMARK = Benchmark(name="own", path="own.jsonl", questions=["What is 1?", LONG])


def test_near_rows_are_removed_counted_and_listed_and_suspected_ones_only_listed():
    # 29 words: 27 trigrams. Without the last 4 words 23 are left (0.85), without 8 words 19 (0.70).
    rows = [question(" ".join(LONG.split()[:count])) for count in (29, 25, 21, 5)]
    rows.append(question("What is 2?"))
    kept, findings = decontaminated(rows, [BENCHMARK], near())
    assert kept == rows[2:]
    found = findings["own"]
    assert (found.questions, found.near_questions, found.near_rows) == (2, 1, 2)
    assert [f.similarity for f in found.near] == [1.0, round(23 / 27, 4)]
    assert {f.benchmark_row for f in found.near} == {2}
    assert [f.similarity for f in found.suspected] == [round(19 / 27, 4)]


def test_near_rows_may_be_kept_and_are_counted_all_the_same():
    rows = [question(LONG), question("else")]
    kept, findings = decontaminated(rows, [BENCHMARK], near(contaminated="keep"))
    assert kept == rows
    assert findings["own"].near_rows == 1


def test_a_lower_threshold_removes_more():
    rows = [question(" ".join(LONG.split()[:21]))]
    assert decontaminated(rows, [BENCHMARK], near())[0] == rows
    assert decontaminated(rows, [BENCHMARK], near(overlap=0.6))[0] == []


def test_options_are_not_compared():
    row = question("What is 1?\nA. one\nB. two", compared="What is 1?")
    assert decontaminated([row], [BENCHMARK], near())[0] == []


TEXT = "the value of x in the equation " + LONG


def test_a_repetition_has_the_same_numbers_commands_and_answer():
    rows = [
        question(f"Find {TEXT} 3"),
        question(f"Determine {TEXT} 3"),
        question(f"Find {TEXT} 4"),
        question(f"Find {TEXT} 3", answer="2"),
        question(f"Find {TEXT} 3 \\sin"),
    ]
    kept, repetitions = without_repetitions(rows, near(), answer_is_text=True)
    assert kept == [rows[0], *rows[2:]]
    assert [(r.question, r.first) for r in repetitions] == [(rows[1].question, rows[0].question)]
    kept, _ = without_repetitions(rows, near(), answer_is_text=False)
    assert kept == [rows[0], rows[2], rows[4]]
    assert without_repetitions(rows, near(repeated="keep"), answer_is_text=True)[0] == rows


def test_what_is_near_a_removed_row_alone_stays():
    # Of 27 trigrams the second shares 24 with the first, the third 24 with the second and 21 with
    # the first: the threshold is 0.85 * 27 = 22.95.
    words, new = LONG.split(), [f"new{letter}" for letter in "abcdef"]
    first, second, third = (" ".join([*words[count:], *new[:count]]) for count in (0, 3, 6))
    rows = [question(text) for text in (first, second, third)]
    kept, repetitions = without_repetitions(rows, near(), answer_is_text=True)
    assert [row.question for row in kept] == [first, third]
    assert [repetition.question for repetition in repetitions] == [second]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def source(tmp_path, **changes):
    files = {"train": "train.jsonl", "validation": None, "test": "test.jsonl"}
    settings = {"data__source": "local", "data__files": files} | changes
    return make_source(params(**settings).data, tmp_path)


def test_validation_is_cleaned_as_train_is_and_a_test_file_is_left_alone(tmp_path):
    rows = [{"question": LONG, "answer": "1"}, {"question": "q", "answer": "1"}]
    for name in ("train", "validation", "test"):
        write(tmp_path / f"{name}.jsonl", rows)
    files = {split: f"{split}.jsonl" for split in ("train", "validation", "test")}
    found = source(tmp_path, data__files=files, data__decontaminate=["own=test.jsonl"])
    assert [len(list(found(split))) for split in ("train", "validation", "test")] == [0, 0, 2]
    near_rows = {
        split: by_name["own"]["near_rows"]
        for split, by_name in found.contamination["benchmarks"].items()
    }
    assert near_rows == {"train": 2, "validation": 2}
    assert found.facts["pools"]["train"]["near_benchmarks"] == 2


def test_a_benchmark_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"data\.decontaminate must name a file, got .*no\.jsonl"):
        read_benchmark("own=no.jsonl", tmp_path)
    write(tmp_path / "own.jsonl", [{"question": "q"}, {"problem": "q"}])
    with pytest.raises(ValueError, match=r"own\.jsonl:2: question must be non-empty .*own\)"):
        read_benchmark("own=own.jsonl", tmp_path)


ROWS = [{"q": {"text": f"q{i}"}, "a": str(i), "key": i} for i in range(4)]
FIELDS = {"question": "q.text", "answer": "a", "id": "key", "sha256": None}


# printf 'test\nt' | sha256sum
TEST_HASH = "8c5184d5a0d278a6522e2cb5abe0044d757fe5828b1ef899b9e38a6f39f68303"


def own(tmp_path, rows, **changes):
    write(tmp_path / "train.jsonl", rows)
    write(
        tmp_path / "test.jsonl", [{"q": {"text": "test"}, "a": "t", "key": "t", "hash": TEST_HASH}]
    )
    return source(tmp_path, data__fields=FIELDS | changes.pop("fields", {}), **changes)


def test_own_fields_are_read_by_their_names(tmp_path):
    found = list(own(tmp_path, ROWS)("train"))
    assert [(q.question, q.answer, q.id) for q in found] == [
        (f"q{i}", str(i), str(i)) for i in range(4)
    ]
    assert found[0].meta["key"] == 0


def test_a_row_whose_hash_is_wrong_is_refused_or_skipped(tmp_path):
    right = {  # printf 'q0\n0' | sha256sum
        **ROWS[0], "hash": "092029699b54929f6672df0da73af106c9dd7e0c306e30778be1f23e12df1a1d",
    }  # fmt: skip
    rows = [right, {**ROWS[1], "hash": "0" * 64}]
    fields = {"sha256": "hash"}
    with pytest.raises(ValueError, match=r"train\.jsonl:2: hash must be the sha256 of question"):
        own(tmp_path, rows, fields=fields)
    found = own(tmp_path, rows, fields=fields, data__bad_rows="skip")
    assert [question.question for question in found("train")] == ["q0"]
    facts = found.facts["pools"]["train"]
    assert facts["bad_rows_skipped"] == 1
    assert "train.jsonl:2: hash must be" in facts["bad_rows"][0]


def test_other_rows_than_expected_are_refused(tmp_path):
    facts = own(tmp_path, ROWS).facts["pools"]["train"]
    expected = {"rows": 4, "sha256": facts["sha256"]}
    assert own(tmp_path, ROWS, data__expected=expected).facts["expected"] == expected
    with pytest.raises(ValueError, match=r"data\.expected\.sha256 must be that of the training"):
        own(tmp_path, [*ROWS[:3], ROWS[3] | {"a": "5"}], data__expected=expected)
    with pytest.raises(ValueError, match=r"data\.expected\.rows must be .* \(3\), got 4"):
        own(tmp_path, ROWS[:3], data__expected=expected)


def test_a_named_sets_held_out_rows_do_not_depend_on_the_order_of_the_file(tmp_path):
    rows = [{"problem": f"Problem {i}", "answer": str(i)} for i in range(30)]
    files = {"train": "train.jsonl", "validation": None, "test": None}
    texts = []
    for order in (rows, rows[::-1]):
        write(tmp_path / "train.jsonl", order)
        found = source(tmp_path, data__files=files, data__set="math12k")
        texts.append([question.question for question in found("validation")])
    assert texts[0] == texts[1]
    assert texts[0] != sorted(texts[0])
    assert found.facts["files"].keys() == {"train.jsonl"}
