"""What the Prefect server does by itself: end runs whose machine is gone, tell of failures."""

from datetime import timedelta
from typing import Any

from prefect.automations import Automation
from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from pydantic import SecretStr

from gmts.config import ConfigError

NOTIFY_VARIABLE = "GMTS_NOTIFY"
"""Environment variable: where failures are told, an http(s) or mailto(s) URL; else nowhere."""

ZOMBIES = "gmts: runs that went silent have crashed"
FAILURES = "gmts: tell of failures"
_BLOCK = "gmts-notify"
_SILENCE = timedelta(seconds=150)
"""Five heartbeats (see flows/worker.py)."""

_RUN_EVENTS = "prefect.flow-run."
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed")


def zombie_automation() -> Automation:
    """Return the automation that marks a run Crashed after 150 s without a heartbeat.

    Pending counts as one: the worker that has taken a run may be gone before the run's process is
    there. Runs that started otherwise have no heartbeat and are left alone.
    """
    heartbeat, pending = f"{_RUN_EVENTS}heartbeat", f"{_RUN_EVENTS}Pending"
    return Automation(
        name=ZOMBIES,
        description="Made by `gmts deploy`.",
        trigger=EventTrigger(
            after={heartbeat, pending},
            expect={heartbeat, *(f"{_RUN_EVENTS}{state}" for state in ("Running", *_ENDS))},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=_SILENCE,
        ),
        actions=[
            ChangeFlowRunState(
                name=None,
                state=StateType.CRASHED,
                force=False,
                message=f"No sign of life for {_SILENCE.seconds} s; its machine may be gone.",
            )
        ],
    )


def failure_automation(block_id: Any) -> Automation:
    """Return the automation that tells of failed and crashed runs through the block."""
    return Automation(
        name=FAILURES,
        description="Made by `gmts deploy`.",
        trigger=EventTrigger(
            expect={f"{_RUN_EVENTS}Failed", f"{_RUN_EVENTS}Crashed"},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            SendNotification(
                block_document_id=block_id,
                subject="gmts: {{ flow.name }} {{ flow_run.state.name }}",
                body="{{ flow_run.state.message }}\n{{ flow_run|ui_url }}",
            )
        ],
    )


def notifier(url: str) -> tuple[str, Any]:
    """Return the block that sends to `url`, and the name to save it under.

    Raises:
        ConfigError: If it is neither a web address nor a mail address as a URL.
    """
    scheme = url.partition(":")[0]
    if scheme in ("http", "https"):
        return _BLOCK, CustomWebhookNotificationBlock(
            name=_BLOCK,
            url=url,
            json_data={"subject": "{{subject}}", "text": "{{body}}"},
            headers=None,
            cookies=None,
        )
    if scheme in ("mailto", "mailtos"):
        # Of Prefect's blocks this one hands any Apprise URL on, and Apprise sends mail.
        return f"{_BLOCK}-mail", SlackWebhook(url=SecretStr(url))
    raise ConfigError(
        f"{NOTIFY_VARIABLE} must start with http:, https:, mailto: or mailtos:, got {scheme!r}"
    )


def put_automations(client: SyncPrefectClient, notify: str | None) -> list[str]:
    """Make or replace this project's automations; return their names."""
    wanted = [zombie_automation()]
    if notify is not None:
        name, block = notifier(notify)
        wanted.append(failure_automation(block.save(name, overwrite=True)))
    for name in (ZOMBIES, FAILURES):
        for found in client.read_automations_by_name(name):
            client.delete_automation(found.id)
    for automation in wanted:
        automation.create()
    return [automation.name for automation in wanted]
