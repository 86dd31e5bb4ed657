import json
import shutil

import pytest
import torch
from transformers import GenerationConfig

from gmts.trainers.verl.checkpoints import found_in, load_policy, prune, resume_point
from tests.support.policies import policy


def checkpoint(folder, step, ranks=2, model=None):
    """Write what verl writes, every file a real archive."""
    path = folder / f"global_step_{step}"
    actor = path / "actor"
    actor.mkdir(parents=True)
    for rank in range(ranks):
        for part in ("model", "optim", "extra_state"):
            content = model.state_dict() if model is not None and part == "model" else {}
            torch.save(content, actor / f"{part}_world_size_{ranks}_rank_{rank}.pt")
    if model is not None:
        model.config.save_pretrained(actor / "huggingface")
        GenerationConfig(eos_token_id=1).save_pretrained(actor / "huggingface")
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    torch.save({}, path / "data.pt")
    return path


def steps(folder):
    return [found.step for found in found_in(folder)]


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("name", ["data.pt", "actor/optim_world_size_2_rank_1.pt"])
@pytest.mark.parametrize("damage", [cut, lambda path: path.unlink()])
def test_a_checkpoint_with_a_file_missing_or_cut_short_does_not_count(tmp_path, name, damage):
    for step in (9, 10):
        checkpoint(tmp_path, step)
    assert steps(tmp_path) == [9, 10]
    damage(tmp_path / "global_step_10" / name)
    assert steps(tmp_path) == [9]


def test_resuming_takes_the_newest_whose_metrics_are_written_and_drops_later_ones(tmp_path):
    for step in (2, 4, 6):
        checkpoint(tmp_path, step)
    assert resume_point(tmp_path, {0, 1, 2, 3, 4}, num_ranks=2).step == 4
    assert steps(tmp_path) == [2, 4]


def test_without_a_usable_checkpoint_a_run_starts_afresh(tmp_path):
    checkpoint(tmp_path, 2)
    assert resume_point(tmp_path, set(), num_ranks=2) is None
    assert list(tmp_path.iterdir()) == []


def test_another_number_of_ranks_is_refused_and_nothing_is_deleted(tmp_path):
    checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4)
    with pytest.raises(ValueError, match=r"number of ranks must stay 2 .* got 4"):
        resume_point(tmp_path, {2}, num_ranks=4)
    assert steps(tmp_path) == [2, 4]


def test_old_checkpoints_go_only_once_the_new_one_is_complete(tmp_path):
    for step in (1, 2, 3):
        checkpoint(tmp_path, step)
    shutil.rmtree(tmp_path / "global_step_3" / "actor")  # as verl leaves it half way
    prune(tmp_path, kept=1, newest_step=3, accuracy={})
    assert steps(tmp_path) == [2]
    assert (tmp_path / "global_step_3").exists()


def test_what_lies_above_the_newest_logged_step_is_left_alone(tmp_path):
    for step in (1, 2, 3):
        checkpoint(tmp_path, step)
    prune(tmp_path, kept=1, newest_step=2, accuracy={})
    assert steps(tmp_path) == [2, 3]


def test_the_best_validated_checkpoint_stays_beside_the_newest(tmp_path):
    for step in (1, 2, 3, 4):
        checkpoint(tmp_path, step)
    prune(tmp_path, kept=1, newest_step=4, accuracy={0: 0.9, 1: 0.2, 2: 0.5, 3: 0.5})
    assert steps(tmp_path) == [2, 4]  # of equals the earliest; step 0 has no checkpoint


def test_a_policy_comes_back_in_the_dtype_that_is_asked_for(tmp_path):
    model = policy(dtype=torch.float32)
    checkpoint(tmp_path, 1, ranks=1, model=model)
    (found,) = found_in(tmp_path)
    for dtype in ("float32", "bfloat16"):
        loaded = load_policy(found, dtype)
        assert loaded.generation_config.eos_token_id == 1
        for name, value in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value.to(getattr(torch, dtype))), name


def test_shards_of_another_model_are_refused(tmp_path):
    model = policy(dtype=torch.float32)
    checkpoint(tmp_path, 1, ranks=1, model=model)
    wrong = policy("llama", dtype=torch.float32).state_dict()
    torch.save(wrong, tmp_path / "global_step_1" / "actor" / "model_world_size_1_rank_0.pt")
    with pytest.raises(ValueError, match="must hold the weights of its config"):
        load_policy(found_in(tmp_path)[0], "float32")
