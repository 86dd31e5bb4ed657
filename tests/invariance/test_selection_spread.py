import ast
from pathlib import Path

from torch import multiprocessing

from tests.support.selection_ranks import NUM_CASES, WORLD_SIZE, run_rank


def test_padding_empty_ranks_collisions_and_faults_are_no_matter_of_rank(tmp_path: Path):
    # Forked: fresh interpreters would take long to import torch.
    multiprocessing.start_processes(
        run_rank, args=(str(tmp_path),), nprocs=WORLD_SIZE, start_method="fork"
    )
    done = [ast.literal_eval((tmp_path / f"rank{rank}").read_text()) for rank in range(WORLD_SIZE)]
    expected = {
        rank: {size: count for size, count in NUM_CASES.items() if rank < size}
        for rank in range(WORLD_SIZE)
    }
    assert dict(enumerate(done)) == expected
