"""An application that waits for webhooks: its sources, and a tool that parks until one comes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel

from signals import Signal, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.testing import Call, ScriptedModel, call, say
from tarry.tools import tool
from tarry.webhooks import GITHUB, Event, HmacSha256, StandardWebhooks, WebhookSource

NAME = "tests.support.webhook_app:app"

TIMED = HmacSha256("X-CI-Signature", prefix="sha256=", timestamp_header="X-CI-Timestamp", id_header="X-CI-Delivery")

SECRETS = {
    "CI_SECRET": "old-secret-of-ci new-secret-of-ci",
    "BANK_SECRET": "secret-of-the-bank",
    "MAIL_SECRET": "whsec_dGhlIHNlY3JldCBvZiB0aGUgbWFpbA==",
    "FORGE_SECRET": "secret-of-the-forge",
}


class Report(BaseModel):
    """What a build came to."""

    status: Literal["passed", "failed"]


CiResult = Signal("ci.result", 1, Report)


@tool(replay="safe")
async def wait_for_ci(key: str, api: ToolApi, seconds: float = 3_600) -> str | Sleep:
    """Wait for a build."""
    match await api.read_signal(CiResult, key):
        case Received(value=report):
            return f"CI {report.status}"
        case Expired():
            return "CI never reported"
    return Sleep(signals=[CiResult.key(key)], until=timedelta(seconds=seconds))


@tool(replay="safe")
async def build(match: str, api: ToolApi) -> str | Sleep:
    """Start a build, which reports by webhook or at the URL that the question holds."""
    if isinstance(received := await api.read_signal(CiResult, "done"), Received):
        return f"CI {received.value.status}"
    await api.expect("ci", match, CiResult.key("done"))
    return Sleep(signals=[CiResult.key("done")], ask=api.callback_url(CiResult.key("done")))


def finished(body: Any, headers: Mapping[str, str]) -> Event | None:
    """Only an end of a build is an event; what comes before it would take the key's place."""
    if body["state"] in ("queued", "in_progress"):
        return None
    return Event(body["build"], {"status": body["state"]})


def source(name: str, **fields: Any) -> WebhookSource:
    """A source that reports builds."""
    given: dict[str, Any] = {"signature": TIMED, "secret": "CI_SECRET", "event": finished, "max_bytes": 300_000}
    return WebhookSource(name, **given | fields)


SOURCES = (
    source("ci"),
    source("bank", secret="BANK_SECRET"),
    source("mail", signature=StandardWebhooks(), secret="MAIL_SECRET"),
    source("forge", signature=GITHUB, secret="FORGE_SECRET"),
    source("strict", unexpected_for=timedelta(0)),
)


def calling(first: Call) -> App:
    """An application whose model makes one call for every input."""
    model = ScriptedModel.for_each_input([first, lambda request: say(request.messages[-1].text)])
    return App(model=model, extensions=[Extension("ci", [wait_for_ci, build], signals=[CiResult])], webhooks=SOURCES)


def waiting(key: str = "done", seconds: float = 3_600) -> App:
    """An application whose calls wait on this key, for so long."""
    return calling(call("wait_for_ci", key=key, seconds=seconds))


app = waiting()

SCALED = "build-of-the-scaled"
building = calling(call("build", match=SCALED))
"""For workers that are processes: what each input makes them call cannot be chosen by a test."""

hurried = waiting(seconds=35)
