"""A Prefect server with all its services, and workers, as separate processes on loopback."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.clones import environment, interpreter

SPEED = {
    # Prefect's own services look every 15 to 60 s; tests do not wait that long.
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, seconds, what):
    """Return the first true value of `condition()`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.3)


class Server:
    """`gmts server` run from a clone, and an API client for it."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = clone.parent / "server.log"
        self.start()
        self._http = httpx.Client(base_url=f"{self.address}/api/", timeout=60)

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [interpreter(self.clone), "-m", "flows", "server", "--port", str(self.port)],
                cwd=self.clone, env=environment(self.clone) | SPEED, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_for(self.healthy, 180, f"a Prefect server; {self.log}")

    def healthy(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"{self.address}/api/health", timeout=2):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        self._http.close()
        self.kill()

    def environment(self, clone: Path, **more: str) -> dict[str, str]:
        """Return the environment of a client in a clone."""
        return environment(clone) | SPEED | {"PREFECT_API_URL": f"{self.address}/api"} | more

    def call(self, clone: Path, *arguments: str, **more: str) -> str:
        """Run `gmts ARGUMENTS` against this server and return what it prints."""
        done = subprocess.run(
            [interpreter(clone), "-m", "gmts.cli", *arguments], cwd=clone,
            env=self.environment(clone, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def ask(self, method: str, path: str, **more):
        """Return the answer's content; asks again while SQLite is busy (503), as Prefect does."""
        deadline = time.monotonic() + 60
        while True:
            answer = self._http.request(method, path, **more)
            if answer.status_code != 503 or time.monotonic() > deadline:
                assert answer.is_success, answer.text
                return answer.json() if answer.content else None
            time.sleep(1)

    def post(self, path: str, **body):
        return self.ask("POST", path, json=body)

    def get(self, path: str):
        return self.ask("GET", path)

    def deployment(self, name: str) -> dict:
        return self.get(f"deployments/name/{name}")

    def submit(self, name: str, **parameters) -> str:
        """Ask for a run of a deployment and return its id."""
        deployment = self.deployment(name)
        run = self.post(f"deployments/{deployment['id']}/create_flow_run", parameters=parameters)
        return run["id"]

    def state(self, run: str) -> dict:
        return self.get(f"flow_runs/{run}")["state"]

    def ended(self, run: str, seconds: float = 300) -> dict:
        """Wait for the run's final state and return it."""
        final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

        def found():
            state = self.state(run)
            return state if state["type"] in final else None

        return wait_for(found, seconds, f"run {run} ended; it is {self.state(run)}")

    def runs(self, *types: str) -> list[dict]:
        return self.post("flow_runs/filter", flow_runs={"state": {"type": {"any_": list(types)}}})

    def tasks(self, run: str) -> dict[str, str]:
        """Return the state's name by task run of a flow run."""
        found = self.post("task_runs/filter", flow_runs={"id": {"any_": [run]}})
        return {task["name"]: task["state"]["name"] for task in found}

    def cancel(self, run: str) -> None:
        self.post(f"flow_runs/{run}/set_state", state={"type": "CANCELLING"})

    @contextmanager
    def worker(self, clone: Path, *pool: str, **more: str):
        """Yield a worker process (its supervisor) and end it, with all below it."""
        with (clone.parent / f"worker-{'-'.join(pool)}.log").open("a") as log:
            process = subprocess.Popen(
                [interpreter(clone), "-m", "flows", "worker", *pool], cwd=clone,
                env=self.environment(clone, **more), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(45)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
