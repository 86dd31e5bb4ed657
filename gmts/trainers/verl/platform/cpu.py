"""The CPU as a verl platform, chosen by the environment variable VERL_PLATFORM=cpu.

verl asks for accelerators in three places: Ray gets logical "GPU" slots (`num_gpus` of ray.init),
collectives go over gloo, and the `torch.cuda`-like module answers with what a process has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


@PlatformRegistry.register(platform=NAME)
class CPUPlatform(PlatformBase):
    """One device per process, which is the processor."""

    device_name = property(lambda self: NAME)
    vendor_name = property(lambda self: NAME)

    @property
    def device_module(self) -> ModuleType:
        """torch.cpu and the calls of torch.cuda that verl makes."""
        return _DEVICE_MODULE

    def is_available(self) -> bool:
        """Return True."""
        return True

    def current_device(self) -> Any:
        """Return "cpu": verl hands it to Tensor.to."""
        return NAME

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Do nothing: there is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing: work on the CPU is done when a call returns."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch's generator."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch's generator."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """Do nothing: there is no caching allocator."""

    def empty_cache(self) -> None:
        """Do nothing: there is no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """Return none: compute capabilities are CUDA's."""
        return (None, None)

    def communication_backend_name(self) -> str:
        """Return gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return the variable that Ray sets for its GPU slots."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Mark nothing."""
        yield

    def profiler_start(self) -> None:
        """Do nothing."""

    def profiler_stop(self) -> None:
        """Do nothing."""

    def ray_resource_name(self) -> str:
        """Return GPU: verl places workers on slots of that name, here logical ones."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return the variable that keeps Ray from hiding devices."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        """Return False: CUDA's handles to memory of other processes."""
        return False

    def cudart(self) -> None:
        """Return None: there is no CUDA runtime."""


def _device_module() -> ModuleType:
    """Return a module with the names of torch.cpu and those of torch.cuda that verl calls."""
    module = ModuleType(f"{__name__}.device")
    vars(module).update({k: v for k, v in vars(torch.cpu).items() if not k.startswith("_")})
    own: dict[str, Any] = {
        # verl's memory reports and cache clearing skip an accelerator that is not available.
        "is_available": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: NAME,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "get_device_name": lambda device=None: NAME,
        "memory_allocated": _resident_bytes,
        "max_memory_allocated": _resident_bytes,
        "memory_reserved": _resident_bytes,
        "max_memory_reserved": _resident_bytes,
        "reset_peak_memory_stats": lambda device=None: None,
        "mem_get_info": _memory_bytes,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
    }
    vars(module).update(own)
    return module


def _resident_bytes(device: Any = None) -> int:
    return int(psutil.Process().memory_info().rss)


def _memory_bytes(device: Any = None) -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)


_DEVICE_MODULE = _device_module()
