"""What the recorded workers serve that are to die: tools and a model that kill the process they run in."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.models import ModelRequest
from tarry.tasks import DurableTask
from tarry.testing import Call, Reply, ScriptedModel, call, say
from tarry.tools import tool

RECOVERED = "TARRY_TEST_RECOVERED"
"""Names a file: as long as it is missing, the model kills its worker."""


def die() -> NoReturn:
    # What was published leaves with the next heartbeat.
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


@tool
def crash(api: ToolApi) -> str:
    """Take the worker along, half done."""
    api.output("half done")
    die()


def happened() -> str:
    """What the tool below did before it was cut off."""
    return "it had happened"


@tool(reconcile=happened)
def crash_and_tell() -> str:
    """Take the worker along; whoever asks later learns that it happened."""
    die()


@tool(replay="safe")
def crash_until(attempt: int, api: ToolApi) -> str:
    """Take the worker along on every attempt before that one."""
    if api.attempt < attempt:
        die()
    return f"attempt {api.attempt}"


@tool
def crash_when_woken(api: ToolApi) -> Sleep:
    """Wait for a moment, and take the worker along after that."""
    if api.wake is None:
        return Sleep("asked", timedelta(0))
    api.output("half done")
    die()


def _clean_up(api: ToolApi) -> None:
    api.memo_sync("cleaned", api.checkpoint)


@tool(cancel=_clean_up)
def clean_up_when_woken(api: ToolApi) -> Sleep:
    """The same, with something to clean up."""
    if api.wake is None:
        return Sleep("asked", timedelta(0))
    die()


@tool(replay="safe")
def crash_when_woken_until(attempt: int, api: ToolApi) -> Sleep | str:
    """The same, on every attempt of the woken run before that one."""
    if api.wake is None:
        return Sleep("asked", timedelta(0))
    if api.attempt < attempt:
        die()
    return f"attempt {api.attempt} after {api.checkpoint}"


def respond(request: ModelRequest) -> Reply | Call:
    """The newest input names the tool to call, or it kills the worker."""
    said = request.messages[-1].text
    if said == "model":
        if not Path(os.environ[RECOVERED]).exists():
            die()
        return say("recovered")
    name, _, attempt = said.partition(" ")
    return call(name, attempt=int(attempt)) if attempt else call(name)


crash_once: DurableTask[int, str] = DurableTask("test.crash", int, str)


@crash_once.phase
def step(attempt: int, api: ToolApi) -> str:
    """Take the worker along, on every attempt before that one."""
    if api.attempt < attempt:
        die()
    return f"attempt {api.attempt}"


TOOLS = [crash, crash_and_tell, crash_until, crash_when_woken, clean_up_when_woken, crash_when_woken_until]

app = App(
    model=ScriptedModel.for_each_input([respond, say("done")]),
    extensions=[Extension("crashes", TOOLS, tasks=[crash_once])],
)
