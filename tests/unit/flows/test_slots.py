"""Slots of a limit and the roster, against a server that is a dictionary."""

import contextlib
import os
import subprocess
import sys
import time
import uuid

import httpx
import psutil
import pytest

from flows import roster, slots
from flows.trees import TREE_VARIABLE

RUN = "7f0c1d1e-0000-4000-8000-000000000001"
LIMIT = "gpu-slots"


def refusal(code):
    request = httpx.Request("POST", "http://server")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(code))


class FakeServer:
    """Has one slot."""

    def __init__(self):
        self.leases = set()
        self.refusals = []
        self.renewed = []

    def increment_concurrency_slots_with_lease(self, names, slots, mode, lease_duration):
        assert (names, slots) == ([LIMIT], 1)
        if self.leases:
            self.refusals.append(set(self.leases))
            raise refusal(423)
        lease = uuid.uuid4()
        self.leases.add(lease)
        limit = {"id": str(uuid.uuid4()), "name": LIMIT, "limit": 1}
        return httpx.Response(200, json={"lease_id": str(lease), "limits": [limit]})

    def renew_concurrency_lease(self, lease, lease_duration):
        self.renewed.append(lease)
        if len(self.renewed) == 1:
            raise httpx.ConnectError("being restarted")

    def release_concurrency_slots_with_lease(self, lease):
        self.leases.discard(lease)


@pytest.fixture
def server(monkeypatch, tmp_path):
    server = FakeServer()
    for module in (roster, slots):
        monkeypatch.setattr(module, "get_client", lambda **_: contextlib.nullcontext(server))
    monkeypatch.setattr(roster, "_held", {})
    monkeypatch.setattr(roster, "_end", lambda client, run: True)
    monkeypatch.setenv(TREE_VARIABLE, "")
    yield server
    for handle in roster._held.values():
        os.close(handle)


def test_a_slot_is_given_back_when_the_block_ends(server, tmp_path):
    roster.hold(RUN, tmp_path)
    with pytest.raises(RuntimeError, match="failed"), slots.slot(LIMIT):
        assert len(server.leases) == 1
        raise RuntimeError("failed")
    assert server.leases == set()


def test_a_lease_is_renewed_through_an_outage(server, tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "_RENEW_SECONDS", 0.01)
    roster.hold(RUN, tmp_path)
    with slots.slot(LIMIT):
        [lease] = server.leases
        while len(server.renewed) < 3:
            pass
    assert set(server.renewed) == {lease}


def killed_with_a_slot(folder, server):
    """Leave what a process leaves that was killed with a slot and a child."""
    lease = uuid.uuid4()
    server.leases.add(lease)
    program = (
        "import os, signal, subprocess, sys, uuid, pathlib; from flows import roster; "
        "roster.hold(sys.argv[1], pathlib.Path(sys.argv[2])); "
        "roster.note_lease(uuid.UUID(sys.argv[3])); "
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=2); "
        "print(child.pid, flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", program, RUN, str(folder), str(lease)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return int(done.stdout)


def ended(child):
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    return True


def test_the_sweep_gives_back_what_a_killed_process_had(server, tmp_path):
    child = killed_with_a_slot(tmp_path, server)
    assert roster.sweep(tmp_path) == [RUN]
    assert server.leases == set()
    assert ended(child)
    assert roster.sweep(tmp_path) == []


def test_a_run_that_is_tried_again_waits_for_no_slot_of_its_own(server, tmp_path, monkeypatch):
    child = killed_with_a_slot(tmp_path, server)
    roster.hold(RUN, tmp_path)
    assert ended(child)
    assert roster.sweep(tmp_path) == []
    with slots.slot(LIMIT):
        assert len(server.leases) == 1
    assert server.refusals == []
