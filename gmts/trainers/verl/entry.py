"""verl's own main program, whose outcome can be told apart.

python -m gmts.trainers.verl.entry OUTCOME_FILE OVERRIDES...
"""

import sys
from pathlib import Path

import ray
from verl.trainer.main_ppo import main as verl_main

from gmts.files import write_json
from gmts.trainers.verl.buffer import NoSignalError
from gmts.trainers.verl.entry_codes import NO_SIGNAL


def main(arguments: list[str]) -> int:
    """Run verl with these Hydra overrides and return the exit code."""
    outcome, *overrides = arguments
    sys.argv = ["verl", *overrides]
    try:
        verl_main()
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, NoSignalError):
            raise
        found = error.cause
        write_json(
            Path(outcome),
            {
                "message": str(found),
                "num_groups": found.num_groups,
                "num_all_wrong": found.num_all_wrong,
                "num_all_right": found.num_all_right,
                "limit": found.limit,
            },
        )
        return NO_SIGNAL
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
