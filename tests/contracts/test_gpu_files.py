"""The files for GPU machines agree with one another and with the presets."""

import re
import shlex
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from gmts.config import parse_params
from gmts.config.load import parse_yaml
from gmts.config.presets import render_preset
from gmts.trainers.verl.config import Experiment, refusals


def lines(name):
    text = Path(name).read_text(encoding="utf-8").splitlines()
    return [line for line in text if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def pinned():
    pairs = [line.split("==") for line in lines("constraints/gpu.txt")]
    assert all(len(pair) == 2 for pair in pairs)
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("requirement", lines("constraints/gpu.in"))
def test_a_requirement_of_the_gpu_environment_is_pinned_to_a_version_it_allows(pinned, requirement):
    wanted = Requirement(requirement)
    assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)])


def test_the_gpu_environment_is_the_one_that_verl_with_vllm_resolves_to(pinned):
    found = {name: pinned[name] for name in ("torch", "vllm", "transformers", "tensordict", "ray")}
    assert found == {
        "torch": "2.11.0",
        "vllm": "0.24.0",
        "transformers": "5.9.0",
        "tensordict": "0.10.0",
        "ray": "2.60.0",
    }
    assert not pinned.keys() & {"prefect", "dvc", "flash-attn"}


def test_both_environments_have_the_same_verl_and_the_same_judges(pinned):
    cpu = {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines("constraints/cpu.txt"))
    }
    same = ("verl", "transferqueue", "lm-eval", "evalplus", "math-verify", "antlr4-python3-runtime")
    assert {name: pinned[name] for name in same} == {name: cpu[name] for name in same}


def test_the_ray_job_starts_a_valid_experiment_on_as_many_gpus_as_it_asks_for(repository):
    job = YAML(typ="safe").load(Path("examples/ray-job.yaml").read_text(encoding="utf-8"))
    words = job["spec"]["entrypoint"].split()
    preset = words[words.index("--preset") + 1]
    overrides = [word for word in words if re.match(r"[a-z_.]+=", word)]
    params = parse_params(parse_yaml(render_preset(repository, preset, overrides)))
    cluster = job["spec"]["rayClusterSpec"]
    groups = [(1, cluster["headGroupSpec"])]
    groups += [(group["replicas"], group) for group in cluster["workerGroupSpecs"]]
    assert params.verl.nodes == sum(count for count, _ in groups)
    for _, group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == params.verl.ranks_per_node


def test_the_ray_job_has_the_ray_of_the_gpu_environment(pinned):
    job = YAML(typ="safe").load(Path("examples/ray-job.yaml").read_text(encoding="utf-8"))
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == pinned["ray"]


def test_the_image_makes_both_environments_and_names_the_second_ones_python():
    text = Path("Containerfile").read_text(encoding="utf-8")
    makefile = Path("Makefile").read_text(encoding="utf-8")
    assert "make install-gpu" in text
    assert "GPU_VENV ?= .venv-gpu" in makefile
    assert "GMTS_TRAIN_PYTHON=/opt/gmts/.venv-gpu/bin/python" in text


@pytest.mark.parametrize("backend", ["standalone", "verl"])
def test_the_short_run_on_gpus_asks_for_what_both_backends_take(repository, backend):
    text = Path("examples/gpu_check.sh").read_text(encoding="utf-8")
    listed = re.search(r"^short=\((.*?)\)$", text, re.DOTALL | re.MULTILINE)
    overrides = [*shlex.split(listed[1]), f"train.backend={backend}", "verl.ranks_per_node=8"]
    params = parse_params(parse_yaml(render_preset(repository, "smoke", overrides)))
    assert (params.runtime.device, params.model.dtype) == ("cuda", "bfloat16")
    if backend == "verl":
        assert refusals(Experiment.of(params, params.data.max_prompt_tokens)) == []
