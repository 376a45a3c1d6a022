# Two gates, asked again on each wake: what a person approves at 23:30 still waits for the end of quiet hours.
#
#     .venv/bin/python examples/10_approval_gate.py

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, time, timedelta
from functools import partial
from queue import SimpleQueue

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.common import SearchAttributeKey
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.testing import WorkflowEnvironment

from tarry import App, Extension, Harness, HookCall, attributes, tool
from tarry.connect import data_converter
from tarry.gates import DECISION, Decision, Question, approvals, quiet_hours
from tarry.models import ModelRequest
from tarry.settings import load_settings
from tarry.testing import Call, Reply, ScriptedModel, call, eventually, say
from workers.worker import build_worker

SETTINGS = load_settings()
KEYS = [key for key in vars(attributes).values() if isinstance(key, SearchAttributeKey)]
TYPES = {key.name: IndexedValueType.ValueType(key.indexed_value_type) for key in KEYS}


@tool
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def is_risky(wanted: HookCall) -> bool:
    return wanted.tool == "shell" and wanted.arguments["command"].startswith("rm ")


def run_it(request: ModelRequest) -> Call:
    return call("shell", command=request.messages[-1].text)


def report(request: ModelRequest) -> Reply:
    return say(request.messages[-1].text)


asked: SimpleQueue[Question] = SimpleQueue()
people = approvals(is_risky, deadline=timedelta(hours=4), notify=lambda _, question: asked.put(question))
night = quiet_hours(time(22), time(7), "UTC")
app = App(model=ScriptedModel([run_it, report]), extensions=[Extension("commands", [shell]), people, night])


async def main() -> None:
    async with clockwork() as clock:
        await decided(clock, "rm -r build", Decision(allow=True, by="Ana", reason="it can be built again"))
        await decided(clock, "rm -r .git", Decision(allow=False, by="Ana", reason="Use git clean."))


async def decided(clock: WorkflowEnvironment, command: str, decision: Decision) -> None:
    harness = Harness(clock.client, SETTINGS)
    await sleep_until(clock, time(20))
    submission = await harness.conversation().submit(command)
    question = await asyncio.to_thread(asked.get)
    print(f"20:00 {question.ask.text}")
    now = await sleep_until(clock, time(23, 30))
    await harness.signal(question.task_id, DECISION, question.key, decision)
    print(f"{now:%H:%M} {'yes' if decision.allow else 'no'}")
    if decision.allow:
        view = await eventually(lambda: harness.task(question.task_id), lambda view: bool(view.until and not view.keys))
        print(f"{now:%H:%M} waits until {view.until:%H:%M}")
        now = await sleep_until(clock, time(7))
    print(f"{now:%H:%M} {(await submission.wait()).answer_text}")


async def sleep_until(clock: WorkflowEnvironment, at: time) -> datetime:
    now = await clock.get_current_time()
    await clock.sleep((datetime.combine(now.date(), at, now.tzinfo) - now) % timedelta(days=1))
    return await clock.get_current_time()


@asynccontextmanager
async def clockwork() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock jumps, and a worker; Stage's own server would need the two nights."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    start = partial(WorkflowEnvironment.start_time_skipping, data_converter=data_converter(SETTINGS.store))
    async with await start(test_server_existing_path=f"{sys.prefix}/bin/temporal-test-server") as clock:
        request = AddSearchAttributesRequest(namespace=clock.client.namespace, search_attributes=TYPES)
        await clock.client.operator_service.add_search_attributes(request)
        async with build_worker(clock.client, app, SETTINGS):
            yield clock
    await asyncio.sleep(0.2)  # a thread of the SDK that lets go of what was cancelled while Python ends aborts it


if __name__ == "__main__":
    asyncio.run(main())
