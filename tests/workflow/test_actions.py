"""What a run costs on Temporal Cloud, in the actions that histories show (docs/growing.md). Heartbeats come on top."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from signals.parking import Sleep
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.parking import ANSWER, HOUR, YES, Waits, start, waiting_app
from tests.support.stage import app_of, stage

ACTIONS = {
    # One to keep that it is to start, one to start it; a child's own first event is no third.
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: 2,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 1,
    EventType.EVENT_TYPE_TIMER_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: 1,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,
    EventType.EVENT_TYPE_MARKER_RECORDED: 1,
}


async def actions_of(client: Client, query: str) -> int:
    """Of all workflows that fit, without the start of the first."""
    counted: Counter[EventType.ValueType] = Counter()
    async for found in client.list_workflows(query):
        history = await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        counted.update(event.event_type for event in history.events)
    return sum(number * ACTIONS.get(kind, 0) for kind, number in counted.items())


@tool(replay="safe")
def look() -> str:
    """Look around."""
    return "seen"


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_run_of_k_rounds_takes_4k_plus_4_actions(server: EmbeddedServer, tmp_path: Path, rounds: int) -> None:
    model = ScriptedModel.for_each_input([*[call("look")] * rounds, say("done")])
    async with stage(server, app_of(model, look), tmp_path) as on:
        conversation = on.harness.conversation()
        query = f'TarryConversation = "{conversation.id}"'
        await ask(conversation)
        first = await actions_of(on.client, query)
        await ask(conversation)
        second = await actions_of(on.client, query) - first

    assert (first, second) == (4 * rounds + 4, 4 * rounds + 4)


async def test_a_wait_takes_six_actions_from_its_park_to_its_rerun(server: EmbeddedServer, tmp_path: Path) -> None:
    costs = []
    for steps in ([], [Sleep(signals=[ANSWER.key("done")], until=HOUR)]):
        waits = Waits(*steps)
        async with stage(server, waiting_app(waits.tool), tmp_path) as on:
            parked = await start(on, waits.tool)
            if steps:
                await parked.parked()
                await parked.update("done", YES)
            await parked.ends()
            costs.append(await actions_of(on.client, f'WorkflowId = "{parked.id}"'))

    assert costs[1] - costs[0] == 6
