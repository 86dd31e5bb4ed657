import shutil

import pytest
from ruamel.yaml import YAML

from flows.names import STAGES
from flows.pools import POOLS, check_here, is_elsewhere, pools_here, stage_pool
from gmts.config import ConfigError


@pytest.fixture
def here(repository, monkeypatch):
    monkeypatch.delenv("GMTS_POOLS", raising=False)
    return repository


def test_a_machine_that_is_told_nothing_serves_every_pool_and_sends_nothing_elsewhere(here):
    assert pools_here() == set(POOLS)
    assert not any(is_elsewhere(stage, here) for stage in STAGES)


def test_training_belongs_to_the_gpu_pool_and_nothing_else_does(here):
    found = {stage: stage_pool(stage, here) for stage in STAGES}
    assert found == {stage: "gpu" if stage == "train" else "cpu" for stage in STAGES}


def test_a_stage_of_another_pool_is_refused_with_the_command_that_sends_it_there(here, monkeypatch):
    monkeypatch.setenv("GMTS_POOLS", "cpu")
    check_here("evaluate", here)
    with pytest.raises(ConfigError, match=r"pool gpu, got .* serves cpu .*python -m flows pipel"):
        check_here("train", here)
    monkeypatch.setenv("GMTS_POOLS", "gpu, cpu")
    check_here("train", here)


def test_unknown_pools_are_refused(here, monkeypatch, tmp_path):
    monkeypatch.setenv("GMTS_POOLS", "cpu,tpu")
    with pytest.raises(ConfigError, match=r"GMTS_POOLS must be pools out of cpu, gpu.*'cpu,tpu'"):
        pools_here()
    text = (here / "prefect.yaml").read_text().replace("name: gpu", "name: tpu")
    (tmp_path / "prefect.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"deployment train in .* one of cpu, gpu, got 'tpu'"):
        stage_pool("train", tmp_path)
    with pytest.raises(ConfigError, match="must have a deployment named nothing"):
        stage_pool("nothing", tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        stage_pool("train", tmp_path)


def test_prefect_yaml_deploys_the_pipeline_and_every_stage_with_schedules_off(here):
    deployments = YAML(typ="safe").load((here / "prefect.yaml").read_text())["deployments"]
    assert [deployment["name"] for deployment in deployments] == ["pipeline", *STAGES]
    for deployment in deployments[1:]:
        assert deployment["parameters"] == {"target": deployment["name"]}
    schedules = {found["slug"]: found for found in deployments[0]["schedules"]}
    assert set(schedules) == {"nightly-smoke", "weekly-full"}
    assert not any(found["active"] for found in schedules.values())
