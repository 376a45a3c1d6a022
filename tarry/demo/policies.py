"""Three declarations of one tool, one crash each, and what stands on both sides afterwards.

Every fact is read: tickets from the tracker over HTTP, runs of tools from the ledger file, results from the
transcript, the moment of notice from the call's history.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tarry.core.messages import Frozen, ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import Entry, ToolFacts
from tarry.demo.scenario import PATIENCE, ScenarioError, page_of
from tarry.demo.tracker import Ticket, tickets_at, tracker
from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tarry.testing.stage import Stage

Policy = Literal["default", "safe", "keyed"]

APPS: dict[Policy, str] = {
    "default": "tarry.demo.triage:scripted",
    "safe": "tarry.demo.triage:scripted_safe",
    "keyed": "tarry.demo.triage:scripted_keyed",
}
QUESTION = "Investigate the order failures."

Report = Callable[[Policy, str], None]
"""Told of each step when it has happened."""


class PolicyFacts(Frozen):
    """What one crash left behind, outside and inside."""

    worker_1: str = Field(description="the signal that ended the first worker")
    after_crash: int = Field(description="tickets in the tracker while no worker ran")
    tickets: int = Field(description="tickets in the tracker in the end")
    ticket_ids: tuple[str, ...]
    ledger: dict[str, int] = Field(description="runs of each tool")
    result: str = Field(description="the committed result of open_ticket: its code, or its text when it has none")
    text: str = Field(description="that result as the model read it")
    answer: str
    noticed_after: float = Field(description="seconds from the kill until the call's history told of it")
    web_ui: str = Field(description="the page of the run")
    transcript: tuple[Entry, ...]


class Facts(Frozen):
    """The whole demo. `ledger` and `web_ui` are those of the default declaration."""

    policies: dict[Policy, PolicyFacts]
    ledger: dict[str, int]
    web_ui: str
    state: str = Field(description="folder of all that is left: the server's state, tickets, ledgers, logs")


async def run_policies(server: EmbeddedServer, folder: Path, report: Report) -> Facts:
    """Play the scenario under each declaration: the first alone, to be followed, then the others together.

    Raises:
        ScenarioError: one did not come to its end.
        ChildError: a process could not start.
    """
    found: dict[Policy, PolicyFacts] = {"default": await _Scenario("default", server, folder, report).play()}
    try:
        async with asyncio.TaskGroup() as group:
            safe = group.create_task(_Scenario("safe", server, folder, report).play())
            keyed = group.create_task(_Scenario("keyed", server, folder, report).play())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    found |= {"safe": safe.result(), "keyed": keyed.result()}
    default = found["default"]
    return Facts(policies=found, ledger=default.ledger, web_ui=default.web_ui, state=str(folder))


def broken_promises(facts: Facts) -> list[str]:
    """Each fact that differs from what is promised (spec §10), as a line; none when all is well."""
    return [
        f"{policy}: {name} is {found!r}, promised is {wanted!r}"
        for policy, promise in _PROMISES.items()
        for name, wanted in promise.items()
        if (found := getattr(facts.policies[policy], name)) != wanted
    ]


def _promise(*, tickets: int, runs: int, result: str) -> dict[str, Any]:
    ledger = {"search_logs": 1, "open_ticket": runs}
    return {"worker_1": "SIGKILL", "after_crash": 1, "tickets": tickets, "ledger": ledger, "result": result}


_PROMISES: dict[Policy, dict[str, Any]] = {
    "default": _promise(tickets=1, runs=1, result="interrupted"),
    "safe": _promise(tickets=2, runs=2, result="Opened TICKET-2"),
    "keyed": _promise(tickets=1, runs=2, result="Opened TICKET-1"),
}


@dataclass(frozen=True)
class _Crash:
    ended_by: str
    at: datetime
    tickets: list[Ticket]


class _Scenario:
    """Ask; worker 1 dies inside `open_ticket`, right after the effect; worker 2 takes over and answers."""

    def __init__(self, policy: Policy, server: EmbeddedServer, folder: Path, report: Report) -> None:
        self._policy: Policy = policy
        self._server = server
        self._folder = folder / policy
        self._ledger = self._folder / "ledger.txt"
        self._report = report

    async def play(self) -> PolicyFacts:
        outside = tracker(self._folder / "tickets.json", log=self._folder / "tracker.log", environment=os.environ)
        stage = Stage(APPS[self._policy], server=self._server, folder=self._folder)
        try:
            async with outside, stage:
                return await self._crash_and_recover(stage, outside.ready_line)
        except TimeoutError:
            raise ScenarioError(f"{self._policy}: no end within {PATIENCE:g} s; see {self._folder}") from None

    async def _crash_and_recover(self, stage: Stage, tracker_url: str) -> PolicyFacts:
        environment = {"TRIAGE_TRACKER": tracker_url, "TRIAGE_LEDGER": str(self._ledger)}
        first = await stage.start_worker(TRIAGE_CRASH="1", **environment)
        self._say(f"worker 1 (pid {first.pid}) serves the agent, a tracker listens at {tracker_url}")
        conversation = stage.harness.conversation()
        submission = await conversation.submit(QUESTION, request_id="investigate-1")
        self._say(f"asked: {QUESTION}")
        crash = await self._crash(first, tracker_url)
        second = await stage.start_worker(TRIAGE_CRASH="0", **environment)
        self._say(f"worker 2 (pid {second.pid}) serves the agent")
        async with asyncio.timeout(PATIENCE):
            settled = await submission.wait()
        self._say(f"{settled.status}: {settled.answer_text}")
        transcript = tuple(await conversation.transcript())
        return await self._facts(stage.harness.client, crash, await tickets_at(tracker_url), settled, transcript)

    async def _facts(
        self,
        client: Client,
        crash: _Crash,
        tickets: Sequence[Ticket],
        settled: SubmissionView,
        transcript: tuple[Entry, ...],
    ) -> PolicyFacts:
        result, facts = _ticket_result(transcript)
        return PolicyFacts(
            worker_1=crash.ended_by,
            after_crash=len(crash.tickets),
            tickets=len(tickets),
            ticket_ids=tuple(ticket.id for ticket in tickets),
            ledger=Counter(self._ledger_tools()),
            result=facts.code or result.text,
            text=result.text,
            answer=settled.answer_text or "",
            noticed_after=round((await _noticed_at(client, facts.task_id) - crash.at).total_seconds(), 1),
            web_ui=await page_of(self._server, client, settled.generation_id),
            transcript=transcript,
        )

    async def _crash(self, worker: Child, tracker_url: str) -> _Crash:
        async with asyncio.timeout(PATIENCE):
            code = await worker.wait()
        at = datetime.now(UTC)
        ended_by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        tickets = await tickets_at(tracker_url)
        opened = ", ".join(ticket.id for ticket in tickets) or "no ticket"
        where = (self._ledger_tools() or ["no tool"])[-1]
        self._say(f"worker 1 was ended by {ended_by} inside {where}; the tracker holds {opened}")
        return _Crash(ended_by, at, tickets)

    def _ledger_tools(self) -> list[str]:
        """The tool of each line in the ledger."""
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [line.split()[0] for line in lines]

    def _say(self, text: str) -> None:
        self._report(self._policy, text)


def _ticket_result(transcript: Sequence[Entry]) -> tuple[ToolMessage, ToolFacts]:
    for entry in transcript:
        if isinstance(entry.message, ToolMessage) and entry.message.name == "open_ticket" and entry.tool is not None:
            return entry.message, entry.tool
    raise ScenarioError("the transcript holds no result of open_ticket")


async def _noticed_at(client: Client, task_id: str) -> datetime:
    """When the call's history first told of the lost worker: by a timeout, or by the start of another run."""
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        is_timeout = event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
        if is_timeout or event.activity_task_started_event_attributes.attempt > 1:
            return event.event_time.ToDatetime(UTC)
    raise ScenarioError(f"the history of {task_id} tells of no lost worker")
