"""Environment of every process this project starts: quiet, offline, apart from the user's own."""

import os
from pathlib import Path

_DEFAULTS = {
    # Nothing phones home.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "ITERATIVE_DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    # An embedded server takes 10 to 30 s to come up on two cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # SQLite has one writer; with several runs at once another waits longer than the default 5 s.
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
    # A server that is started again must know who holds which slot: the database has only counts.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    "PREFECT_LOGGING_EXTRA_LOGGERS": "gmts",
    # A process waits for one more batch of logs before it ends.
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.2",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # Two threads on busy cores are ruinous; torch's count is runtime.threads.
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def quiet_environment(root: Path) -> None:
    """Set what is not set yet; call before prefect, datasets or transformers is imported.

    Prefect's database and profiles go under `root`/work unless PREFECT_HOME names another place,
    so that a run neither reads nor changes the user's own Prefect.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    for name in ("no_proxy", "NO_PROXY"):  # the local server is never behind a proxy
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))
    os.environ.setdefault("PREFECT_HOME", str(root / "work" / "prefect"))


def api_url() -> str:
    """Return the address of the Prefect server.

    Raises:
        ValueError: If PREFECT_API_URL is not set.
    """
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        raise ValueError(
            "PREFECT_API_URL must be the address of a Prefect server, e.g. "
            "http://127.0.0.1:4200/api, got nothing: start one with `gmts server`"
        )
    return url
