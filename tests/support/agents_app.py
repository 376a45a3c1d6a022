"""The application of the drills with agents: a root that delegates, agents that work, and stops in what carries it out.

The input says what is done. `delegate N` starts N agents, waits for them and says how many ended; `mailbox` starts one,
then another turn of it with two messages; `work NAME` runs a tool once, `rest NAME` asks a person in between, and
`nest NAME` delegates to one of its own.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from activities.agents.turns import AgentTurns
from activities.conversation.sending import SendActivities
from tarry import Received, Signal, Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.commits import SendSignal
from tarry.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from tarry.core.settled import SUBMISSION_SETTLED
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.core.subagents.orders import BeginTurn, FetchTurn
from tarry.core.subagents.protocol import Updates
from tarry.drills.kit.points import async_stop_at, stop_at
from tarry.models import ModelRequest, ModelResponse
from tarry.subagents import waiting
from tarry.subagents.extension import subagents
from tarry.testing import Call, Reply, call, calls, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record

LIMIT = int(os.environ.get("DRILL_LIMIT", "4"))
ENDED = " ended its turn."
RESTING = {"ask_person", "wait_agent"}
LONGEST = 40
"""Responses to one input."""


class Words(BaseModel):
    """What a person says."""

    text: str


WORDS = Signal("drill.words", 1, Words)


@tool(replay="safe")
def job(title: str, api: ToolApi) -> str:
    """Work."""
    record(
        "ledger",
        tool="job",
        title=title,
        conversation_id=api.conversation_id,
        attempt=api.attempt,
        key=api.idempotency_key,
    )
    stop_at("working", api.conversation_id)
    return f"{title} is done"


@tool(replay="safe")
async def ask_person(title: str, api: ToolApi) -> str | Sleep:
    """Ask a person."""
    state = await api.read_signal(WORDS, "k")
    if isinstance(state, Received):
        return state.value.text
    return Sleep(signals=[WORDS.key("k")], ask=f"What of {title}?")


def _decide(request: ModelRequest) -> Reply | Call:
    said, since = _input(request)
    made = sum(isinstance(message, AssistantMessage) for message in since)
    ended = sum(message.text.count(ENDED) for message in since if isinstance(message, ToolMessage))
    match said.split():
        case ["delegate", number, *what]:
            return _delegate(int(number), what[0] if what else "work", made, ended)
        case ["mailbox"]:
            return _mailbox(made, ended)
        case ["work", name] if made == 0:
            return call("job", title=name)
        case ["nest", _] if ended == 0:
            return _delegate(1, "work", made, ended)
        case ["rest", name] if made < 3:
            return call("ask_person" if made == 1 else "job", title=name)
        case words:
            return say(f"did {words[-1]}")


def _delegate(number: int, what: str, made: int, ended: int) -> Reply | Call:
    names = [f"w{place}" for place in range(number)]
    if made == 0:
        return calls(*(call("subagent", agent="worker", prompt=f"{what} {name}", task_name=name) for name in names))
    return call("wait_agent", timeout_seconds=120) if ended < number else say(f"{ended} ended")


def _mailbox(made: int, ended: int) -> Reply | Call:
    """The first turn, then two messages and a turn with both."""
    if made == 0:
        return call("subagent", agent="worker", prompt="work w0", task_name="w0")
    if ended == 0:
        return call("wait_agent", timeout_seconds=120)
    return say("the first ended")


def _more(request: ModelRequest) -> Reply | Call:
    """The second input of a `mailbox` root: `more`."""
    _, since = _input(request)
    made = sum(isinstance(message, AssistantMessage) for message in since)
    ended = sum(message.text.count(ENDED) for message in since if isinstance(message, ToolMessage))
    if made < 2:
        return call("send_message", agent="w0", message=f"note {made}")
    if made == 2:
        return call("followup_task", agent="w0")
    return call("wait_agent", timeout_seconds=120) if ended == 0 else say("the second ended")


def _input(request: ModelRequest) -> tuple[str, list[Message]]:
    """The last input, and what came of it."""
    last = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
    return request.messages[last].text, list(request.messages[last + 1 :])


def _step(request: ModelRequest) -> Reply | Call:
    return _more(request) if _input(request)[0] == "more" else _decide(request)


class TimedModel(StoppingModel):
    """Says when a turn of an agent executes: from a request on, until an answer, or a call that rests."""

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        record("spans", agent=request.session_id, at=time.monotonic(), executes=True)
        response = await super().respond(request, on_text)
        names = [call.name for call in response.message.calls]
        executes = bool(names) and not RESTING & set(names)
        record("spans", agent=request.session_id, at=time.monotonic(), executes=executes)
        return response


def _stops_around(owner: Any, name: str, point: str, agent: Callable[..., str]) -> None:
    """Stop before and after a step of the harness, in the name of the agent that it is about; none: pass."""
    step = getattr(owner, name)

    @functools.wraps(step)
    async def stopping(*args: Any) -> Any:
        if not (conversation_id := agent(*args)):
            return await step(*args)
        await async_stop_at(f"before {point}", conversation_id)
        found = await step(*args)
        await async_stop_at(f"after {point}", conversation_id)
        return found

    setattr(owner, name, stopping)


def _beginning(_: AgentTurns, tree_id: str, order: BeginTurn) -> str:
    return order.agent_id


def _submitting(_: AgentTurns, agent_id: str, input: object) -> str:
    return agent_id


def _fetching(_: AgentTurns, order: FetchTurn) -> str:
    return order.agent_id


def _telling(_: SendActivities, item: SendSignal) -> str:
    is_end = item.delivery.signal == SUBMISSION_SETTLED.name and isinstance(item.delivery.value, dict)
    return str(item.delivery.value["conversation_id"]) if is_end else ""


def _stop_in_the_harness() -> None:
    _stops_around(AgentTurns, "begin", "the turn", _beginning)
    _stops_around(AgentTurns, "_submit", "the submission", _submitting)
    _stops_around(AgentTurns, "fetch", "the completion", _fetching)
    _stops_around(SendActivities, "_deliver", "the notice", _telling)
    told = waiting._told

    def read(api: ToolApi, updates: Updates) -> Any:
        if updates.completions:
            stop_at("read", api.conversation_id)
        return told(api, updates)

    waiting._told = read


if "DRILL_POINTS" in os.environ:  # a worker of a drill; a test that takes names from here keeps the harness as it is
    _stop_in_the_harness()

_agent = AgentDefinition(name="worker", description="works", prompt="You work.")
_snapshot = Snapshot(
    definitions=(_agent,), settings=SubagentSettings(max_concurrent_runs=LIMIT, inherit_extensions=True)
)

app = App(
    model=TimedModel(*[_step] * LONGEST),
    extensions=[Extension("drill", [job, ask_person], signals=[WORDS]), subagents(_snapshot)],
)
