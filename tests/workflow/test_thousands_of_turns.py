"""A conversation that never ends: compactions and parked calls on the way, and every turn as cheap as the first ones.

`TARRY_TEST_TURNS=2000` plays all of it, in some minutes; by default so much that pages are folded and runs turn over.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from statistics import mean

from bench.histories import runs_of
from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.client import Conversation
from tarry.core.context import in_context, request_context
from tarry.core.protocol import VIEW
from tarry.core.views import ConversationView
from tarry.embedded import EmbeddedServer
from tarry.models import ModelInfo, ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.stage import Stage, app_of, stage

TURNS = int(os.environ.get("TARRY_TEST_TURNS", "210"))
INPUT = 12_000
"""Characters of an input: some six fill a page."""
EVERY = 20
"""Turns between two that park a call."""
WINDOW = 40_000
CARRIED = 128 * 1024


@tool(replay="safe")
def nap(api: ToolApi) -> Sleep | str:
    """Sleep for a second."""
    return "rested" if api.wake else Sleep(until=timedelta(seconds=1))


def decide(request: ModelRequest) -> Reply:
    last = request.messages[-1].text
    return calls(call("nap")) if last.startswith("nap") else say(f"{len(request.messages)} messages")


async def cost(on: Stage, workflow_id: str) -> tuple[int, int]:
    """Events and bytes of the history of a run that is over."""
    described = await on.client.get_workflow_handle(workflow_id).describe()
    info = described.raw_description.workflow_execution_info
    return info.history_length, info.history_size_bytes


async def turn(on: Stage, conversation: Conversation, number: int) -> tuple[int, int]:
    """One turn; what its run cost."""
    text = f"{'nap' if number % EVERY == 0 else 'go'} {number} ".ljust(INPUT, "x")
    settled = await (await conversation.submit(text)).wait()
    assert settled.status == "done", settled
    return await cost(on, settled.generation_id)


async def test_a_conversation_of_very_many_turns_costs_the_same_at_its_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    model = ScriptedModel.for_each_input(
        [decide, say("rested")],
        on_request=lambda request: asked.append(request) if request.purpose == "turn" else None,
        info=ModelInfo(context_window=WINDOW),
    )
    sizes = {"reserve_tokens": 4_000, "keep_recent_tokens": 8_000, "background_tokens": 6_000}
    async with stage(server, app_of(model, nap), tmp_path, turnover_events=300, **sizes) as on:
        conversation = on.harness.conversation()
        costs = [await turn(on, conversation, number) for number in range(1, TURNS + 1)]
        state = await on.client.get_workflow_handle(conversation.id).query(VIEW, result_type=ConversationView)
        last = asked[-1]
        entries = await conversation.transcript()
        runs = await runs_of(on.client, conversation.id)
        carried = [run.input_bytes for run in runs if run.workflow_id == conversation.id]

    plain = [cost for number, cost in enumerate(costs, 1) if number % EVERY]
    early, late = plain[EVERY : 2 * EVERY], plain[-EVERY:]
    assert mean(events for events, _ in late) <= 1.1 * mean(events for events, _ in early)
    assert mean(size for _, size in late) <= 1.1 * mean(size for _, size in early)
    assert len(carried) > 5
    assert max(carried) < CARRIED
    assert max(page.level for page in state.pages) >= 1
    assert [entry.index for entry in entries] == list(range(len(entries)))
    assert sum(entry.kind == "user" for entry in entries) == TURNS
    assert sum(entry.kind == "compaction" for entry in entries) >= TURNS * INPUT // 4 // WINDOW
    largest = max(sum(len(message.text) for message in request.messages) // 4 for request in asked)
    assert largest <= WINDOW
    # A compaction in the background may stand behind the last answer.
    answered = max(entry.index for entry in entries if entry.kind == "assistant")
    assert last.messages == request_context(in_context(entries[:answered])).messages
