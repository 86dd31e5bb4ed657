"""What every process of a verl run must know: variables, and overrides of paths and Ray."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import gmts

_PLUGIN = "gmts.trainers.verl.plugin"
_VLLM_ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it claims cores that Ray's actors share
    "TORCHDYNAMO_DISABLE": "1",
}


def process_environment(platform: str, records: Path, threads: int) -> dict[str, str]:
    """Return the variables for verl, for its actors on whatever node included.

    Args:
        platform: verl's name of the platform.
        records: Where verl's file logger writes.
        threads: Of each process.
    """
    return {
        "VERL_PLATFORM": platform,
        "VERL_USE_EXTERNAL_MODULES": _PLUGIN,
        "VERL_FILE_LOGGER_PATH": str(records),
        "PYTHONPATH": os.pathsep.join(_own_paths()),
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",  # else Hydra turns every exception into exit code 1
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONWARNINGS": "ignore",
        "VLLM_NO_USAGE_STATS": "1",
        **(_VLLM_ON_CPU if platform == "cpu" else {}),
    }


def _own_paths() -> list[str]:
    """Return what this process's module path holds besides Python's and its environment's own.

    verl may run in another environment, whose packages are others.
    """
    installed = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    paths = [Path(path or os.getcwd()).resolve() for path in sys.path]
    paths.append(Path(gmts.__file__).resolve().parents[1])
    return [
        str(path)
        for path in dict.fromkeys(paths)
        if not any(path.is_relative_to(prefix) for prefix in installed)
    ]


def own_overrides(
    *,
    checkpoints: Path,
    resume_from: Path | None,
    scratch: Path,
    ray_address: str | None,
    num_cpus: int,
    num_gpus: int | None,
    environment: Mapping[str, str],
) -> list[str]:
    """Return the Hydra overrides that only the launcher can know.

    Args:
        checkpoints: Folder of the checkpoints.
        resume_from: The checkpoint to go on from.
        scratch: Folder that ends with the run.
        ray_address: Of a running cluster, or None.
        num_cpus: Slots of an own cluster.
        num_gpus: Logical GPU slots of an own cluster; None: Ray counts.
        environment: For every actor.
    """
    values: dict[str, object] = {
        "trainer.v1.trainer_mode": "gmts",
        "trainer.logger": ["file"],
        "trainer.default_local_dir": str(checkpoints),
        "hydra.run.dir": str(scratch / "hydra"),
        "hydra.output_subdir": None,
        "trainer.resume_mode": "disable" if resume_from is None else "resume_path",
    }
    if resume_from is not None:
        values["trainer.resume_from_path"] = str(resume_from)
        values["trainer.val_before_train"] = False  # that step has been validated
    ray: dict[str, object] = {"include_dashboard": False}
    if ray_address is not None:
        ray = {"address": ray_address}
    else:
        ray |= {"num_cpus": num_cpus, "_temp_dir": str(scratch / "ray")}
        if num_gpus is not None:
            ray["num_gpus"] = num_gpus
    for name, value in environment.items():
        ray[f"runtime_env.env_vars.{name}"] = value
    values |= {f"+ray_kwargs.ray_init.{name}": value for name, value in ray.items()}
    return [f"{key}={_quoted(value)}" for key, value in values.items()]


def _quoted(value: object) -> str:
    """Return a value as Hydra reads it back: text always in quotes, numbers as text too."""
    return json.dumps(value)
