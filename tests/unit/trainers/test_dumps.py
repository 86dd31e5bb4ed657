import gzip

import pytest

from gmts.trainers.standalone.dumps import (
    DumpedResponse,
    drop_dumps_after,
    dump_file,
    read_dump,
    write_dump,
)


def _response(number):
    return DumpedResponse(
        sample_id=number,
        row_id=f"row-{number}",
        prompt="1+1=",
        response="\\boxed{2} – ja",
        correct=True,
        score=1.0,
        reason="",
        advantage=0.25,
        num_selected_tokens=2,
        num_response_tokens=5,
        finished=True,
    )


def test_a_dump_holds_what_was_written_up_to_the_limit(tmp_path):
    path = write_dump(tmp_path, 7, [_response(n) for n in range(5)], limit=3)
    assert path == dump_file(tmp_path, 7)
    assert list(read_dump(path)) == [_response(0), _response(1), _response(2)]


def test_equal_content_gives_equal_bytes_at_another_time_and_place(tmp_path, monkeypatch):
    first = write_dump(tmp_path / "a", 1, [_response(1)], limit=9).read_bytes()
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert write_dump(tmp_path / "b", 1, [_response(1)], limit=9).read_bytes() == first
    assert gzip.decompress(first).count(b"\n") == 1


def test_dumps_of_later_steps_are_dropped(tmp_path):
    for step in (1, 20, 100):
        write_dump(tmp_path, step, [_response(step)], limit=1)
    drop_dumps_after(tmp_path, 20)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step-000001.jsonl.gz",
        "step-000020.jsonl.gz",
    ]


def test_a_damaged_dump_is_named(tmp_path):
    path = write_dump(tmp_path, 1, [_response(1)], limit=1)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match="step-000001"):
        list(read_dump(path))
