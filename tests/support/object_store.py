"""An object store that speaks S3: moto's server, a process on loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.support.prefect_server import free_port, wait_for

KEY = {"access_key_id": "tests", "secret_access_key": "tests", "region": "us-east-1"}


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """Yield the address of a store with one empty bucket."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"

    def created():
        assert process.poll() is None
        try:
            return httpx.put(f"{address}/{bucket}").is_success
        except httpx.TransportError:
            return False

    try:
        wait_for(created, 60, "an object store")
        yield address
    finally:
        process.terminate()
        process.wait()
