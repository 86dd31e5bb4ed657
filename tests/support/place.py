"""A clone with a server and a worker, and what can be seen of them from outside."""

import re

import psutil

from tests.support.clones import make_clone
from tests.support.prefect_server import Server, wait_for

MARK = "GMTS_TEST_MARK"


class Place:
    """The clone, its server and worker, and what a webhook was told."""

    def __init__(self, folder, repository):
        self.clone = make_clone(repository, folder)
        self.mark = str(folder)
        self.told = []
        self.server = Server(self.clone)

    def log(self):
        return (self.clone.parent / "worker-.log").read_text()

    def marked(self):
        """Return every process on this machine that descends from the worker's supervisor."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark:
                    found.append((process, " ".join(process.cmdline())))
            except psutil.Error:
                continue
        return found

    def at_work(self):
        """Return those that belong to runs, not to the worker itself."""
        own = ("flows worker", "-m flows.worker")
        return [found for found in self.marked() if not any(part in found[1] for part in own)]

    def victim(self, part):
        """Return the one process whose command has `part`, not the shell that started it."""
        [process] = [
            process
            for process, command in self.marked()
            if part in command and " -c " not in command
        ]
        return process

    def steps(self):
        """Return the newest checkpoint's step."""
        folders = (self.clone / "work" / "train").glob("*/checkpoints/step-*")
        return max((int(folder.name.removeprefix("step-")) for folder in folders), default=0)

    def trained_on(self):
        """Wait until training has written a checkpoint that was not there."""
        before = self.steps()
        wait_for(lambda: self.steps() > before, 240, f"a checkpoint after step {before}")

    def resumed(self):
        return [int(step) for step in re.findall(r"training resumes after step (\d+)", self.log())]
