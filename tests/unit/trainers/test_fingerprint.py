import pytest

from gmts.trainers.standalone.fingerprint import (
    code_sha256,
    custom_sha256,
    fingerprint,
    library_versions,
)


def test_fingerprint_depends_on_every_value_and_name_but_not_on_order():
    base = {"params": "a", "data": "b"}
    assert fingerprint(base) == fingerprint({"data": "b", "params": "a"})
    assert fingerprint(base) != fingerprint({"params": "a", "data": "c"})
    assert fingerprint(base) != fingerprint({"params": "b", "data": "a"})
    assert fingerprint(base) != fingerprint({"params": "ab", "data": ""})


def test_the_source_of_a_custom_function_is_part_of_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "own_reward_for_fingerprint.py"
    module.write_text("def reward(response, ground_truth, meta):\n    return 1.0\n")
    before = custom_sha256("own_reward_for_fingerprint:reward")
    module.write_text("def reward(response, ground_truth, meta):\n    return 0.0\n")
    assert custom_sha256("own_reward_for_fingerprint:reward") != before
    assert custom_sha256(None) == ""


@pytest.mark.parametrize("path", ["no_such_module_at_all:f", "no_such.module:f"])
def test_a_custom_module_that_is_not_there_is_named(path):
    with pytest.raises(ValueError, match="no_such"):
        custom_sha256(path)


def test_code_and_library_versions_are_stable_within_a_process():
    assert code_sha256() == code_sha256()
    assert library_versions().startswith("torch ")
