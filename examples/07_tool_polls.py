# A service that calls nobody: the tool looks, parks until it is time to look again, ever less often, for a week.
# Two hundred looks make a long history, so the call continues as new on the way and carries all it holds.
#
#     .venv/bin/python examples/07_tool_polls.py

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.testing import WorkflowEnvironment

from tarry import App, Extension, Harness, Sleep, ToolApi, attributes, tool
from tarry.connect import data_converter
from tarry.models import ModelRequest
from tarry.settings import load_settings
from tarry.testing import Reply, ScriptedModel, call, say
from workers.worker import build_worker

LOOKS = 200
LONGEST = 1_200
SETTINGS = load_settings()
KEYS = (attributes.STATE, attributes.CONVERSATION, attributes.TOOL, attributes.WAITING_FOR, attributes.DEADLINE)


@tool(replay="safe")
async def wait_for_export(api: ToolApi) -> str | Sleep:
    """Wait until the export of the shop's data is there."""
    looks = (api.checkpoint or 0) + 1  # a real tool would ask the service here
    if looks == LOOKS:
        return f"The export is there, after {looks} looks."
    return Sleep(checkpoint=looks, until=timedelta(seconds=min(2**looks, 3_600)))


def report(request: ModelRequest) -> Reply:
    return say(request.messages[-1].text)


app = App(
    model=ScriptedModel([call("wait_for_export"), report]),
    extensions=[Extension("exports", [wait_for_export])],
)


async def main() -> None:
    async with clockwork() as clock:
        conversation = Harness(clock.client, SETTINGS).conversation()
        submission = await conversation.submit("Fetch the export.")
        waiting = asyncio.ensure_future(submission.wait())
        while not waiting.done():
            await clock.sleep(timedelta(hours=6))
        print((await waiting).answer_text)

        (call_id,) = [entry.tool.task_id for entry in await conversation.transcript() if entry.tool]
        runs = await histories(clock.client, call_id)
        begun, ended = runs[0][0].event_time.ToDatetime(), runs[-1][-1].event_time.ToDatetime()
        print(f"days from the call's start to its end, on the server's clock: {(ended - begun).days}")
        lengths = [len(run) for run in runs]
        print(f"continued as new: {len(lengths) > 1}; no history over {LONGEST:,} events: {max(lengths) <= LONGEST}")


@asynccontextmanager
async def clockwork() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock jumps over waits, and a worker; Stage's own server would need the eight days."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    server = str(Path(sys.executable).with_name("temporal-test-server"))
    converter = data_converter(SETTINGS.store)
    starting = WorkflowEnvironment.start_time_skipping(test_server_existing_path=server, data_converter=converter)
    async with await starting as clock:
        types = {key.name: IndexedValueType.ValueType(key.indexed_value_type) for key in KEYS}
        request = AddSearchAttributesRequest(namespace=clock.client.namespace, search_attributes=types)
        await clock.client.operator_service.add_search_attributes(request)
        async with build_worker(clock.client, app, SETTINGS):
            yield clock
    await asyncio.sleep(0.2)  # a thread of the SDK that lets go of what was cancelled while Python ends aborts it


async def histories(client: Client, task_id: str) -> list[list[HistoryEvent]]:
    """What happened in each run of a task, the first run first."""
    runs: list[list[HistoryEvent]] = []
    run_id: str | None = None
    while run_id != "":
        events = [event async for event in client.get_workflow_handle(task_id, run_id=run_id).fetch_history_events()]
        runs.insert(0, events)
        run_id = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return runs


if __name__ == "__main__":
    asyncio.run(main())
