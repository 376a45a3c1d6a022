"""The triage agent: it searches the logs of a shop for a failure and opens a ticket for it.

`open_ticket` is declared three times, since what recovery does after a crash is the declaration's to say.
Applications for a worker, on a scripted model: `scripted`, `scripted_safe` and `scripted_keyed`, one for each
declaration. On a real one: `tarry.demo.live:app`.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage
from tarry.demo.tracker import DEFAULT_PORT, LOOPBACK
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, say
from tarry.tools import Tool, tool

LOGS = Path(__file__).parent / "logs"
SHOWN_LINES = 20
TICKET_TITLE = "NPE in OrderService"

INSTRUCTIONS = """\
You find out why a shop's orders fail. Search the logs with search_logs, then open one ticket with open_ticket \
and say in a sentence or two what you found and which ticket you opened. If open_ticket was interrupted, do not \
call it again: say that the ticket may or may not exist and that the tracker has to be checked.\
"""


class TriageSettings(BaseSettings):
    """What a worker of the demo is told by `TRIAGE_…` variables."""

    model_config = SettingsConfigDict(env_prefix="TRIAGE_", env_ignore_empty=True, frozen=True)

    tracker: str = Field(default=f"http://{LOOPBACK}:{DEFAULT_PORT}", description="URL of the tracker")
    ledger: Path = Field(default=Path(".tarry/triage-ledger.txt"), description="file that counts the runs of the tools")
    crash: bool = Field(default=False, description="kill the process in open_ticket, right after its effect")


def _record(line: str) -> None:
    """Count a run where a crash of this process cannot undo it."""
    file = TriageSettings().ledger
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as ledger:
        ledger.write(f"{line}\n")


@tool(replay="safe")
def search_logs(pattern: str) -> str:
    """Search the logs of all services with a regular expression, upper and lower case alike."""
    _record(f"search_logs {pattern}")
    found = list(_matching(re.compile(pattern, re.IGNORECASE)))
    shown = found[:SHOWN_LINES]
    left_out = [f"… and {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    return "\n".join([f"matches: {len(found)}", *shown, *left_out])


def _matching(pattern: re.Pattern[str]) -> Iterator[str]:
    for file in sorted(LOGS.glob("*.log")):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if pattern.search(line):
                yield f"{file.name}:{number}: {line.strip()}"


@tool
def open_ticket(title: str) -> str:
    """Open a ticket in the issue tracker."""
    return _open(title, {})


@tool(name="open_ticket", replay="safe")
def open_ticket_safe(title: str) -> str:
    """Open a ticket in the issue tracker."""
    return _open(title, {})


@tool(name="open_ticket", replay="safe")
def open_ticket_keyed(title: str, api: ToolApi) -> str:
    """Open a ticket in the issue tracker."""
    return _open(title, {"Idempotency-Key": api.idempotency_key})


def _open(title: str, headers: dict[str, str]) -> str:
    settings = TriageSettings()
    _record(f"open_ticket {title}")
    try:
        # No proxy of the environment: the tracker is on this machine.
        response = httpx.post(f"{settings.tracker}/tickets", json={"title": title}, headers=headers, trust_env=False)
    except httpx.ConnectError as error:
        hint = "start one with `python -m tarry.demo.tracker`, or set TRIAGE_TRACKER"
        raise ConnectionError(f"no tracker answers at {settings.tracker}: {hint}") from error
    response.raise_for_status()
    if settings.crash:
        # The ticket is open; nothing says so yet but the tracker.
        os.kill(os.getpid(), signal.SIGKILL)
    return f"Opened {response.json()['id']}"


def _report(request: ModelRequest) -> Reply:
    result = request.messages[-1]
    assert isinstance(result, ToolMessage), "the script reports after open_ticket"
    if result.is_error:
        return say("The ticket call was interrupted; check the tracker before trying again.")
    return say(f"Orders fail with a NullPointerException in OrderService. {result.text}.")


_MODEL = ScriptedModel.for_each_input(
    [call("search_logs", pattern="NullPointerException"), call("open_ticket", title=TICKET_TITLE), _report]
)


def _scripted(declaration: Tool) -> App:
    return App(model=_MODEL, instructions=INSTRUCTIONS, extensions=[Extension("triage", [search_logs, declaration])])


scripted = _scripted(open_ticket)
scripted_safe = _scripted(open_ticket_safe)
scripted_keyed = _scripted(open_ticket_keyed)
