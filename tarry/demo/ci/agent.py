"""The agent of the CI demo: it mends a test in its checkout, has CI run it, and waits for as long as that takes.

`run_ci` holds no process meanwhile: it parks on a signal that the webhook of the CI service becomes. Its key with the
service is a memo, so a rerun asks for the same build and gets it; its wait is known to the gateway before the build
exists, so no webhook is too early.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from signals import Ask, Signal, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage
from tarry.demo.ci.client import CiClient
from tarry.demo.ci.repository import FILE, FLAKY, STABLE, TESTS, check_out, edit
from tarry.demo.ci.service import DEFAULT_PORT, SECRET
from tarry.demo.tracker import LOOPBACK
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, say
from tarry.tools import ToolResult, tool
from tarry.webhooks import Event, StandardWebhooks, WebhookSource

INSTRUCTIONS = "You mend tests. Edit your checkout, then have CI run its tests, and say what came of it."
PATIENCE = timedelta(hours=2)
DONE = "done"
RUN_KEY = "ci.run"
SOURCE = "ci"


class CiSettings(BaseSettings):
    """What a worker of the demo is told by `DEMO_CI_…` variables."""

    model_config = SettingsConfigDict(env_prefix="DEMO_CI_", env_ignore_empty=True, frozen=True)

    url: str = Field(default=f"http://{LOOPBACK}:{DEFAULT_PORT}", description="URL of the CI service")
    checkouts: Path = Field(default=Path(".tarry/checkouts"), description="folder with a checkout a conversation")
    crash: bool = Field(default=False, description="kill the process in run_ci, between trigger and park")


class CiReport(BaseModel):
    """What the CI service says of a build."""

    status: Literal["passed", "failed"]
    log_url: str


CiResult = Signal("demo.ci-result", 1, CiReport)


def finished(body: Any, headers: Mapping[str, str]) -> Event:
    """What a webhook of the CI service tells, for the call that expects its correlation id."""
    build = body["data"]
    return Event(match=build["correlation_id"], value={"status": build["status"], "log_url": build["log_url"]})


def checkout_of(conversation_id: str) -> Path:
    """The checkout of a conversation, made when it is first asked for."""
    return check_out(CiSettings().checkouts / conversation_id)


@tool
def edit_file(path: str, old: str, new: str, api: ToolApi) -> str:
    """Replace a text, which must occur exactly once, in a file of your checkout."""
    edit(checkout_of(api.conversation_id), path, old, new)
    return f"Edited {path}"


async def cancel_build(api: ToolApi) -> None:
    """Stop the build of a call that waits no longer."""
    ci = CiClient(CiSettings().url)
    if api.checkpoint is not None:
        await ci.cancel(api.checkpoint["build"])
    else:
        await ci.cancel_key(await api.memo(RUN_KEY, ""))


@tool(replay="safe", cancel=cancel_build)
async def run_ci(tests: str, api: ToolApi) -> ToolResult | Sleep:
    """Have CI run the tests of a module of your checkout, and report the result."""
    match await api.read_signal(CiResult, DONE):
        case Received(value=report):
            return ToolResult(f"CI {report.status}: {report.log_url}", is_error=report.status != "passed")
        case Expired():
            return ToolResult(f"CI never reported {api.checkpoint['build']}", is_error=True)
    # First writer wins: a rerun gets the key of the first run, and with it the same build.
    key = await api.memo(RUN_KEY, uuid.uuid4().hex)
    # Before there is a build: a fast webhook already finds this call.
    await api.expect(SOURCE, key, CiResult.key(DONE))
    settings = CiSettings()
    build = await CiClient(settings.url).start(checkout_of(api.conversation_id).resolve(), tests, key)
    if settings.crash and api.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # the build runs; nothing here says so yet
    return Sleep(
        checkpoint={"build": build.id},
        signals=[CiResult.key(DONE)],
        until=PATIENCE,
        ask=Ask(text=f"Has {build.id} of {tests} passed?", for_whom="the CI service"),
    )


def _report(request: ModelRequest) -> Reply:
    result = request.messages[-1]
    assert isinstance(result, ToolMessage), "the script reports after run_ci"
    return say(f"The test depended on the order of a set; I mended {FILE}. {result.text}")


scripted = App(
    model=ScriptedModel.for_each_input(
        [call("edit_file", path=FILE, old=FLAKY, new=STABLE), call("run_ci", tests=TESTS), _report]
    ),
    instructions=INSTRUCTIONS,
    extensions=[Extension("ci", [edit_file, run_ci], signals=[CiResult])],
    webhooks=[WebhookSource(SOURCE, StandardWebhooks(), secret=SECRET, event=finished)],
)
