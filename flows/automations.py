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

SILENT = "gmts: runs that went silent have crashed"
UNSTARTED = "gmts: runs that never started have crashed"
FAILURES = "gmts: tell of failures"
_BLOCK = "gmts-notify"
_DESCRIPTION = "Made by `gmts deploy`."
_SILENCE = timedelta(seconds=150)
"""Five heartbeats (see flows/worker.py)."""

_RUN_EVENTS = "prefect.flow-run."
_HEARTBEAT = f"{_RUN_EVENTS}heartbeat"
_ENDS = {f"{_RUN_EVENTS}{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}


def silent_automation() -> Automation:
    """Return the automation that marks a run Crashed after 150 s without a heartbeat.

    Runs without a first one, such as those that no worker started, are left alone.
    """
    return _crashed_after(SILENT, _HEARTBEAT, {_HEARTBEAT, *_ENDS})


def unstarted_automation() -> Automation:
    """Return the automation that marks a run Crashed that is Pending for 150 s.

    The worker that has taken a run may be gone before the run's process is there. This is not part
    of `silent_automation` because Running, which ends this silence, may reach the server's triggers
    after the first heartbeat and would then end that one too.
    """
    expect = {_HEARTBEAT, f"{_RUN_EVENTS}Running", *_ENDS}
    return _crashed_after(UNSTARTED, f"{_RUN_EVENTS}Pending", expect)


def _crashed_after(name: str, after: str, expect: set[str]) -> Automation:
    return Automation(
        name=name,
        description=_DESCRIPTION,
        trigger=EventTrigger(
            after={after},
            expect=expect,
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
        description=_DESCRIPTION,
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
    """Make or replace this project's automations; return their names.

    One that is there already stays, switched on or off: with it would go the silences that it is
    waiting for.
    """
    wanted = [silent_automation(), unstarted_automation()]
    if notify is not None:
        name, block = notifier(notify)
        wanted.append(failure_automation(block.save(name, overwrite=True)))
    kept = {automation.name for automation in wanted if _is_there(client, automation)}
    for name in {SILENT, UNSTARTED, FAILURES} - kept:
        for found in client.read_automations_by_name(name):
            client.delete_automation(found.id)
    for automation in wanted:
        if automation.name not in kept:
            automation.create()
    return [automation.name for automation in wanted]


def _is_there(client: SyncPrefectClient, wanted: Automation) -> bool:
    found = client.read_automations_by_name(wanted.name)
    return [(each.trigger, each.actions) for each in found] == [(wanted.trigger, wanted.actions)]
