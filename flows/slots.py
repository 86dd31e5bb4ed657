"""A slot of a global concurrency limit, kept while its server is away and given back when lost.

Prefect's own `concurrency` gives a lease up for good when its renewal meets a server that is being
restarted, and says to nobody which lease a killed process had; its slot is then taken for minutes.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse

from flows.roster import note_lease

logger = logging.getLogger(__name__)

_LEASE_SECONDS = 300.0
"""How long the server keeps a slot for a machine that is gone, and after it was away itself."""

_RENEW_SECONDS = 30.0
_POLL_SECONDS = 2.0


@contextmanager
def slot(limit: str) -> Iterator[None]:
    """Hold one slot of `limit` for the block, after waiting for it; call inside a flow.

    A limit that the server does not have, or that is switched off, limits nothing.
    """
    with get_client(sync_client=True) as client:
        lease = _acquire(client, limit)
        note_lease(lease)
        ending = threading.Event()
        keeper = threading.Thread(target=_renew, args=(lease, ending), daemon=True, name=limit)
        keeper.start()
        try:
            yield
        finally:
            ending.set()
            _release(client, lease)


def _acquire(client: SyncPrefectClient, limit: str) -> UUID:
    waiting = False
    while True:
        try:
            response = client.increment_concurrency_slots_with_lease(
                [limit], slots=1, mode="concurrency", lease_duration=_LEASE_SECONDS
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code != HTTPStatus.LOCKED:
                raise
        else:
            return ConcurrencyLimitWithLeaseResponse.model_validate(response.json()).lease_id
        if not waiting:
            get_run_logger().info("waiting for a slot of the limit %s", limit)
            waiting = True
        time.sleep(_POLL_SECONDS)


def _release(client: SyncPrefectClient, lease: UUID) -> None:
    try:
        client.release_concurrency_slots_with_lease(lease)
    except httpx.HTTPError as error:  # the next sweep gives it back
        logger.warning("the Prefect server did not take a slot back: %s", error)


def _renew(lease: UUID, ending: threading.Event) -> None:
    with get_client(sync_client=True) as client:
        while not ending.wait(_RENEW_SECONDS):
            try:
                client.renew_concurrency_lease(lease, _LEASE_SECONDS)
            except httpx.HTTPError as error:
                logger.warning("the Prefect server did not renew a slot: %s", error)
