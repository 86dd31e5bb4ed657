"""Starts a launch of verl that a test will kill: python -m tests.support.verl_start FOLDER JSON."""

import json
import sys
from pathlib import Path

from gmts.trainers.verl.launch import run
from tests.support.verl_run import launch_of

if __name__ == "__main__":
    overrides = json.loads(Path(sys.argv[2]).read_text())
    run(launch_of(Path(sys.argv[1]), overrides, steps=3, ranks=2, kept=1))
