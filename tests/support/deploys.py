"""Applications whose gates come and go by deploys, and what becomes of calls that wait at them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from tarry import App, Block, Expired, Extension, HookApi, HookCall, Hooks, Received, Signal, Sleep
from tarry.attributes import REGISTRY
from tarry.client.registry import announce
from tarry.core.gates import REASK
from tarry.core.registry import CURRENT, SWEEP, registry_id
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.stage import Stage
from tests.support.waiting import eventually


class Word(BaseModel):
    """What the gates wait for."""

    allow: bool = True


ALLOW = Signal("test.allow", 1, Word)


@tool
def deploy(what: str) -> str:
    """Deploy something."""
    return f"deployed {what}"


@tool
def runs_ci() -> Sleep:
    """Wait inside a tool."""
    return Sleep(checkpoint={"build": 7}, signals=[ALLOW.key("ci")])


@dataclass
class Gate:
    """A gate that waits for its key. `seen` has what it read each time it was asked; held, it takes its time."""

    name: str
    version: str = ""
    until: datetime | None = None
    holds: bool = False
    seen: list[str] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)

    @property
    def extension(self) -> Extension:
        """It alone."""
        return Extension(self.name, version=self.version, hooks=Hooks(before_tool=self.ask))

    def ask(self, call: HookCall, api: HookApi) -> Sleep | Block | None:
        """Its hook."""
        found = api.read_signal_sync(ALLOW, self.name)
        self.seen.append(type(found).__name__)
        if self.holds:
            self.go.wait(3)
        match found:
            case Received():
                return None
            case Expired():
                return Block("nobody answered", code="expired")
            case None:
                return Sleep(signals=[ALLOW.key(self.name)], until=self.until)

    async def asked(self, times: int = 1) -> None:
        """Return when it was asked so often."""

        async def count() -> int:
            return len(self.seen)

        await eventually(count, lambda found: found >= times)


def app_of(*gates: Gate, tools: Sequence[Any] = (deploy, runs_ci), calling: str = "deploy") -> App:
    """An application whose agent deploys one thing, or waits for CI, with these gates in front."""
    step = call("deploy", what="it") if calling == "deploy" else call("runs_ci")
    model = ScriptedModel.for_each_input([calls(step), say("done")])
    return App(model=model, extensions=[Extension("test", tools, [ALLOW]), *(gate.extension for gate in gates)])


async def start(on: Stage, state: str = "gated") -> str:
    """Ask the agent; its call, once it waits."""
    conversation = on.harness.conversation(f"c{uuid.uuid4().hex[:8]}")
    await conversation.submit("go")
    return await waiting(on, conversation.id, state)


async def waiting(on: Stage, conversation_id: str, state: str = "gated") -> str:
    """The call of a conversation, once lists say that it waits."""

    async def found() -> list[str]:
        return [item.id async for item in on.harness.work(conversation_id=conversation_id) if item.state == state]

    return (await eventually(found))[0]


async def outcome(on: Stage, task_id: str) -> tuple[str, str]:
    """The code and the text of a call, once it is over."""
    found = await on.client.get_workflow_handle(task_id).result()
    return found["code"], found["text"]


async def stop(on: Stage, *task_ids: str) -> None:
    """Stop calls, and return when they are over."""
    for task_id in task_ids:
        await on.harness.abort(task_id)
        await outcome(on, task_id)


async def events(on: Stage, workflow_id: str) -> list[HistoryEvent]:
    """The history of its current run."""
    return list((await on.client.get_workflow_handle(workflow_id).fetch_history()).events)


async def reasks(on: Stage, task_id: str) -> int:
    """How often a call was told that other hooks count."""
    signals = [event.workflow_execution_signaled_event_attributes for event in await events(on, task_id)]
    return sum(signal.signal_name == REASK for signal in signals)


async def asked_under(on: Stage, task_id: str, app: App) -> None:
    """Return when lists say that it was asked under the hooks of `app`."""

    async def found() -> str | None:
        return (await on.client.get_workflow_handle(task_id).describe()).typed_search_attributes.get(REGISTRY)

    await eventually(found, lambda fingerprint: fingerprint == app.registry.fingerprint)


async def sweeps(on: Stage) -> int:
    """How many sweeps were begun and have ended."""
    history = await events(on, registry_id(on.settings.task_queue))
    begun = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history].count(SWEEP)
    ended = sum(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED for event in history)
    return ended if ended == begun else ended - 1


async def swept(on: Stage, count: int) -> None:
    """Return when so many sweeps have come to their end."""
    await eventually(lambda: sweeps(on), lambda found: found >= count)


async def current(on: Stage) -> str:
    """The fingerprint that counts on the stage's queue."""
    found: str = await on.client.get_workflow_handle(registry_id(on.settings.task_queue)).query(CURRENT)
    return found


async def tell(on: Stage, app: App) -> None:
    """What a worker of `app` does when it starts."""
    await announce(on.client, on.settings.task_queue, app.registry.fingerprint)
