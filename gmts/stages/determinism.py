"""Equal runs, bit-identical on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from gmts.trainers.config import RuntimeConfig


@contextmanager
def deterministic(config: RuntimeConfig) -> Iterator[None]:
    """Use `config.threads`, and on the CPU only deterministic kernels; put both back afterwards."""
    import torch

    threads, before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(config.threads)
    if config.device == "cpu":
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(before)
