"""Two clones that share only a server's address and a DVC remote: training runs on one of them.

Each has its own home, virtual environment and DVC cache.
"""

import re
import subprocess

import httpx
import pytest

from gmts.config import load_params
from gmts.files import file_sha256
from tests.support.clones import (
    TINY,
    environment,
    gmts,
    interpreter,
    make_clone,
    own_interpreter,
    run,
)
from tests.support.object_store import KEY, object_store
from tests.support.prefect_server import Server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machines(repository, tmp_path_factory):
    """The clone without a GPU, the one with (whose params.yaml is another), and the server."""
    folder = tmp_path_factory.mktemp("machines")
    clones = []
    for name in ("cpu", "gpu"):
        (folder / name).mkdir()
        clone = make_clone(repository, folder / name)
        own_interpreter(clone)
        run(["dvc", "remote", "add", "--default", "--local", "shared", str(folder / "dvc")], clone)
        clones.append(clone)
    gmts(clones[0], "config", "use", "smoke", *TINY)
    server = Server(clones[0])
    try:
        yield (*clones, server)
    finally:
        server.close()


def stages_run(clone, pool):
    log = (clone.parent / f"worker-{pool}.log").read_text()
    return re.findall(r"Running stage '(\w+)'", log)


def hashes(clone):
    return {
        str(file.relative_to(clone)): file_sha256(file)
        for folder in ("models", "reports/train", "data/prepared")
        for file in (clone / folder).rglob("*")
        if file.is_file()
    }


def test_training_runs_only_on_the_gpu_machine_and_only_once(machines):
    cpu, gpu, server = machines
    assert "deployment train on pool gpu" in server.call(cpu, "deploy")
    assert not (gpu / "data").exists()
    with server.worker(cpu, "cpu"), server.worker(gpu, "gpu"):
        first = server.submit("pipeline/pipeline", target="train")
        assert server.ended(first, 400)["name"] == "Completed", server.state(first)
        # prepare and warmstart came to the second machine from the remote's run cache
        assert stages_run(gpu, "gpu") == ["train"]
        # the dry run that asks whether train is due prints that it would
        assert stages_run(cpu, "cpu") == ["prepare", "warmstart", "train"]
        assert load_params(gpu / "params.yaml") == load_params(cpu / "params.yaml")
        assert hashes(cpu) == hashes(gpu)
        assert any(name.startswith("models/last/") for name in hashes(cpu))
        second = server.submit("pipeline/pipeline", target="train")
        assert server.ended(second)["name"] == "Completed"
        assert set(server.tasks(second).values()) == {"Cached"}
        assert stages_run(gpu, "gpu") == ["train"]
    for clone in (cpu, gpu):
        assert "up to date" in run(["dvc", "status", "train"], clone).stdout


def test_an_object_store_carries_the_data_as_a_folder_does(machines):
    cpu, gpu, server = machines
    with object_store("experiments") as address:
        for clone in (cpu, gpu):
            remote = ["dvc", "remote", "add", "--default", "--local", "store", "s3://experiments/a"]
            run(remote, clone)
            for name, value in (KEY | {"endpointurl": address}).items():
                run(["dvc", "remote", "modify", "--local", "store", name, value], clone)
        with server.worker(cpu, "cpu"), server.worker(gpu, "gpu"):
            trained = len(stages_run(gpu, "gpu"))
            run_id = server.submit("pipeline/pipeline", target="train", seed=7)
            assert server.ended(run_id, 400)["name"] == "Completed", server.state(run_id)
            assert stages_run(gpu, "gpu")[trained:] == ["train"]
        assert load_params(gpu / "params.yaml").seed == load_params(cpu / "params.yaml").seed == 7
        assert hashes(cpu) == hashes(gpu)
        assert (
            httpx.get(f"{address}/experiments?list-type=2&prefix=a/files/md5/").text.count("<Key>")
            > len(hashes(cpu)) / 2
        )


def test_dvc_refuses_a_stage_of_another_machines_pool_and_says_what_to_run(machines):
    cpu = machines[0]
    done = subprocess.run(
        [interpreter(cpu), "-m", "dvc", "repro", "--force", "--single-item", "train"], cwd=cpu,
        env=environment(cpu) | {"GMTS_POOLS": "cpu"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "stage train must run on pool gpu" in done.stderr
    assert "python -m flows pipeline" in done.stderr
