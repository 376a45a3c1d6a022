"""Calls that park, each started alone on a stage, and every road by which the world reaches them."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.task.tools import ToolActivities
from activities.task.waiting import WaitingActivities
from signals.box import Delivery, Receipt
from signals.parking import Sleep
from signals.tokens import Signal
from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.attributes import CONVERSATION, STATE, TOOL
from tarry.connect import sending_inline
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import TOOL_CALL, RunSettings, ToolOutcome
from tarry.core.resolve import resolve_calls
from tarry.core.task_state import ToolCallInput
from tarry.core.waiting import DELIVER, RECEIPTS, REFUSED, TASK, TaskView
from tarry.store import BlobStore
from tarry.testing import ScriptedModel, say
from tarry.tools import Cancel, Replay, Tool, tool
from tests.support.stage import Stage
from tests.support.waiting import eventually
from workflows.task.tool_call import ToolCall

HOUR = timedelta(hours=1)
QUICK = RunSettings(heartbeat_timeout=4.0)


class Answer(BaseModel):
    """What the calls of these tests wait for."""

    text: str


ANSWER = Signal("test.answer", 1, Answer)
YES = {"text": "yes"}


@dataclass(frozen=True)
class Seen:
    """What a run was given."""

    wake: str
    checkpoint: Any
    idempotency_key: str


class Waits:
    """A tool that parks once for each of `steps`, then tells why it woke and the value that woke it.

    Its checkpoint is the number of the next step. `seen` has an item for each run, `hold` keeps a run inside.
    """

    def __init__(
        self,
        *steps: Sleep,
        name: str = "waits",
        replay: Replay = "unsafe",
        cancel: Cancel | None = None,
        token: Signal[Any] = ANSWER,
        holds: Callable[[Seen], bool] = lambda _: False,
    ) -> None:
        self.steps = steps
        self.seen: list[Seen] = []
        self.token = token
        self.go = threading.Event()
        self.task_ids: list[str] = []
        self._holds = holds
        self.tool: Tool = tool(name=name, description="Wait.", replay=replay, cancel=cancel)(self._run)

    async def ran(self, runs: int) -> None:
        """Return when it has begun that often."""

        async def count() -> int:
            return len(self.seen)

        await eventually(count, lambda found: found >= runs)

    def _run(self, api: ToolApi) -> Sleep | str:
        seen = Seen("" if api.wake is None else str(api.wake), api.checkpoint, api.idempotency_key)
        self.task_ids.append(api.task_id)
        self.seen.append(seen)
        while self._holds(seen) and not self.go.wait(0.02):
            if api.is_cancelled:
                return "stopped"
        step = 0 if api.wake is None else api.checkpoint
        if step < len(self.steps):
            return dataclasses.replace(self.steps[step], checkpoint=step + 1)
        return self._told(api)

    def _told(self, api: ToolApi) -> str:
        if api.wake is None or api.wake.reason != "signal":
            return str(api.wake)
        found = api.read_signal_sync(self.token, api.wake.key)
        assert isinstance(found, Received)
        return f"{api.wake}: {found.value.text}"


def waiting_app(*tools: Tool, signals: tuple[Signal[Any], ...] = (ANSWER,)) -> App:
    """An application whose calls are started alone: its model is asked nothing."""
    return App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tools, signals)])


def envelope(key: str, value: Any, **more: Any) -> str:
    """The input of a plain signal."""
    return json.dumps({"key": key, "value": value} | more)


@dataclass
class Call:
    """A tool call with a workflow of its own, and no parent."""

    client: Client
    id: str
    name: str = ANSWER.name
    handle: WorkflowHandle[Any, ToolOutcome] = field(init=False)

    def __post_init__(self) -> None:
        sender = sending_inline(self.client)
        self.handle = sender.get_workflow_handle(self.id, result_type=ToolOutcome)

    async def view(self) -> TaskView:
        """Where it stands."""
        found: TaskView = await self.handle.query(TASK, result_type=TaskView)
        return found

    async def parked(self, intent: int = 1) -> TaskView:
        """Return when that run, and no later one, has parked."""
        return await eventually(self.view, lambda view: view.state == "sleeping" and view.intent == intent)

    async def receipts(self) -> list[Receipt]:
        """All that it still knows, oldest first."""
        found: list[Receipt] = await self.handle.query(RECEIPTS, result_type=list[Receipt])
        return found

    async def answers(self, count: int) -> list[str]:
        """What was answered to the plain signals and updates that entered history, once there are `count` of them."""
        found = await eventually(self.receipts, lambda receipts: len(receipts) >= count)
        return [receipt.answer for receipt in found]

    async def update(self, key: str, value: Any, **more: Any) -> Receipt:
        """Deliver by update: the receipt, also when it is refused."""
        delivery = Delivery(**{"signal": self.name, "key": key, "value": value} | more)
        try:
            receipt: Receipt = await self.handle.execute_update(DELIVER, delivery, result_type=Receipt)
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            assert isinstance(cause, ApplicationError)
            assert cause.type == REFUSED, cause
            return Receipt.model_validate(cause.details[0])
        return receipt

    async def signal(self, key: str, value: Any, **more: Any) -> None:
        """Deliver by plain signal."""
        await self.handle.signal(self.name, {"key": key, "value": value} | more)

    async def ends(self) -> ToolOutcome:
        """Its outcome."""
        return await self.handle.result()

    async def events(self) -> list[HistoryEvent]:
        """The history of its current run."""
        return list((await self.client.get_workflow_handle(self.id).fetch_history()).events)

    async def runs(self) -> list[list[HistoryEvent]]:
        """The histories of all its runs, oldest first."""
        runs: list[list[HistoryEvent]] = []
        run_id: str | None = None
        while run_id != "":
            found = await self.client.get_workflow_handle(self.id, run_id=run_id).fetch_history()
            runs.insert(0, list(found.events))
            run_id = found.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        return runs

    async def history(self) -> list[HistoryEvent]:
        """The histories of all its runs as one."""
        return [event for run in await self.runs() for event in run]


async def start(on: Stage, used: Tool, settings: RunSettings = QUICK, **arguments: Any) -> Call:
    """Start a call of `used`."""
    id = f"conv-{uuid.uuid4().hex[:8]}~n/g1/t1.0"
    await start_call(on.client, on.settings.task_queue, id, used, settings, **arguments)
    return Call(on.client, id)


async def start_call(
    client: Client, queue: str, id: str, used: Tool, settings: RunSettings = QUICK, **arguments: Any
) -> None:
    """Start a call of `used` under `id`, as its generation would."""
    request = ToolCallRequest(call_id="c1", name=used.name, arguments=json.dumps(arguments))
    message = AssistantMessage(calls=(request,), stop="tool_use")
    (call,) = resolve_calls(message, {used.name: used})
    conversation, generation = id.partition("~")[0], id.rpartition("/")[0]
    await client.start_workflow(
        TOOL_CALL,
        ToolCallInput(
            conversation_id=conversation,
            generation_id=generation,
            call=call,
            settings=settings,
            takes_signals=True,
            judged_by_pass=True,
        ),
        id=id,
        task_queue=queue,
        search_attributes=_attributes(conversation, used.name),
    )


def _attributes(conversation: str, used: str) -> TypedSearchAttributes:
    pairs = [(STATE, "running"), (CONVERSATION, conversation), (TOOL, used)]
    return TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs])


def names(events: list[HistoryEvent]) -> list[str]:
    """What happened, in order."""
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events]


def counts(events: list[HistoryEvent]) -> dict[str, int]:
    """How often each kind of event happened."""
    return dict(Counter(names(events)))


_TRIED_AGAIN = frozenset(
    {
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,  # an end that met something new
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,  # two megabytes came meanwhile
    }
)


def wedges(events: list[HistoryEvent]) -> list[str]:
    """Why workflow tasks failed, save for those that the server has tried again in good order."""
    failed = [event for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
    causes = [event.workflow_task_failed_event_attributes for event in failed]
    return [
        f"{WorkflowTaskFailedCause.Name(cause.cause)}: {cause.failure.message}"
        for cause in causes
        if cause.cause not in _TRIED_AGAIN
    ]


async def by_update(call: Call, key: str, value: Any, **more: Any) -> Receipt:
    """Deliver by update."""
    return await call.update(key, value, **more)


async def by_signal(call: Call, key: str, value: Any, **more: Any) -> Receipt:
    """Deliver by plain signal, and wait for its receipt."""
    named = {"delivery_id": uuid.uuid4().hex} | more
    await call.signal(key, value, **named)

    async def told() -> list[Receipt]:
        # By the head of its key too: of two deliveries under one id the other may be told first.
        wanted = (named["delivery_id"], key[:100])
        return [found for found in await call.receipts() if (found.delivery_id, found.key[:100]) == wanted]

    return (await eventually(told))[-1]


ROADS = {"update": by_update, "plain signal": by_signal}


def workflows_only(on: Stage) -> Worker:
    """A worker that decides, and runs no activity."""
    return Worker(
        on.client,
        task_queue=on.settings.task_queue,
        workflows=[ToolCall],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )


def tools_only(on: Stage) -> Worker:
    """A worker that runs tools and judges values, and decides nothing."""
    tools = ToolActivities(on.app.registry, on.client, BlobStore(on.client.data_converter), on.settings)
    waiting = WaitingActivities(on.app.registry, on.client)
    return Worker(on.client, task_queue=on.settings.task_queue, activities=[tools.run, tools.clean_up, waiting.judge])
