"""The application of the bench of parked work: its tool parks, and tells when it was woken how long that took."""

from __future__ import annotations

import time
from datetime import timedelta

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, tool
from tarry.api import ToolApi
from tarry.testing import ScriptedModel, call, say

KEY = "go"
DEADLINE = timedelta(hours=1)


class Sent(BaseModel):
    """When it was sent, by the clock that the tool reads too: both run on one host."""

    at: float


GO = Signal("bench.go", 1, Sent)


@tool
async def waits(api: ToolApi) -> Sleep | str:
    """Wait for a signal. The result is the seconds from its sending to here, or why there are none."""
    here = time.time()
    if api.wake is None:
        return Sleep(until=DEADLINE, signals=[GO.key(KEY)])
    found = await api.read_signal(GO, KEY)
    return str(here - found.value.at) if isinstance(found, Received) else f"woken by {api.wake}"


app = App(
    model=ScriptedModel.for_each_input([call("waits"), say("It came.")]),
    extensions=[Extension("bench", [waits], signals=[GO])],
)
