import subprocess
import sys
import time

import pytest

from flows.server import wait_until_healthy


def test_a_server_that_has_ended_is_not_waited_for(tmp_path, monkeypatch):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("GMTS_SERVER_PID", str(ended.pid))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"its log is .*server\.log"):
        wait_until_healthy(tmp_path)
    assert time.monotonic() - start < 30
