"""Long lives: histories stay far from their limits, transcripts stay whole, and no traffic keeps a run from turning."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

from temporalio.client import WorkflowExecutionStatus

from tarry.client import Conversation, Harness
from tarry.core.messages import ToolMessage, UserMessage
from tarry.core.protocol import SUBMIT, SubmitInput
from tarry.core.transcript import PAGE_BYTES
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.held import HeldTool
from tests.support.stage import Stage, app_of, kinds, stage
from tests.support.waiting import PATIENCE, eventually
from tests.workflow.conftest import EVENT_LIMIT

TURNS = 40
CALLS = 5
WORDS = 1_000


@tool(replay="safe")
def recite(place: int) -> str:
    """Recite a long line."""
    return f"{place} " * WORDS


async def longest_history(on: Stage, conversation: Conversation) -> int:
    """Events in the longest run of any workflow of the conversation."""
    found = [item async for item in on.client.list_workflows(f'TarryConversation = "{conversation.id}"')]
    return max([item.history_length or 0 for item in found])


async def turns_of(on: Stage, workflow_id: str) -> int:
    """How many runs of a workflow there are."""
    return (await on.client.count_workflows(f'WorkflowId = "{workflow_id}"')).count


async def test_long_run_stays_far_from_the_limits_and_keeps_every_entry(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    script = [calls(*(call("recite", place=turn * CALLS + n) for n in range(CALLS))) for turn in range(TURNS)]
    asked: list[ModelRequest] = []
    model = ScriptedModel([*script, say("done"), say("still here")], on_request=asked.append)
    async with stage(lowered_server, app_of(model, recite), tmp_path, turnover_events=100) as on:
        conversation = on.harness.conversation()
        first = await (await conversation.submit("begin")).wait()
        second = await (await conversation.submit("and?")).wait()

        assert (first.answer_text, second.answer_text) == ("done", "still here")
        entries = await Harness(on.client, on.settings).conversation(conversation.id).transcript()
        turn = ["assistant", *["tool_result"] * CALLS]
        assert kinds(entries) == ["user", *turn * TURNS, "assistant", "user", "assistant"]
        results = [entry.message for entry in entries if isinstance(entry.message, ToolMessage)]
        assert [result.text for result in results] == [f"{place} " * WORDS for place in range(TURNS * CALLS)]
        assert asked[-1].messages == tuple(entry.message for entry in entries[:-1] if entry.message)
        view = await conversation.view()
        assert len(view.pages) >= sum(page.size for page in view.pages) // (2 * PAGE_BYTES) > 1
        assert await turns_of(on, first.generation_id) >= TURNS // 5
        assert await longest_history(on, conversation) < EVENT_LIMIT // 2


async def test_idle_conversation_turns_over_under_endless_stray_signals(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with stage(lowered_server, app, tmp_path, turnover_events=50) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("begin")).wait()
        handle = on.client.get_workflow_handle(conversation.id)

        for n in range(EVENT_LIMIT // 4):  # one at a time, so that each costs some four events
            await handle.signal(f"stray-{n}")

        assert (await (await conversation.submit("and?")).wait()).answer_text == "fine"
        assert await turns_of(on, conversation.id) > 3
        assert await longest_history(on, conversation) < EVENT_LIMIT // 2


async def test_constant_traffic_delays_neither_the_turn_of_a_run_nor_a_stop(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def decide(request: ModelRequest) -> Reply:
        last = request.messages[-1].text
        return calls(call("work", what=last)) if last == "work" else say(f"{last}!")

    model = ScriptedModel.for_each_input([decide, say("done")])
    async with stage(
        lowered_server, app_of(model, held.tool), tmp_path, turnover_events=30, heartbeat_timeout=4.0
    ) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("begin")).wait()
        handle = on.client.get_workflow_handle(conversation.id)
        sent: list[str] = []

        async def send_without_end() -> None:
            for n in count():
                input = SubmitInput(content=f"input {n}", request_id=f"r{n}", settings=on.settings.run_settings())
                await handle.signal(SUBMIT, input)
                sent.append(input.content)
                await handle.signal(f"stray-{n}")
                await asyncio.sleep(0.1)

        traffic = asyncio.create_task(send_without_end())
        await eventually(lambda: turns_of(on, conversation.id), lambda turns: turns > 5)
        await conversation.submit("work")
        await held.begun()
        behind = len(sent) + 1  # one may be under way already, the next one waits behind the run
        await eventually(lambda: asyncio.sleep(0, len(sent)), lambda inputs: inputs > behind)
        async with asyncio.timeout(PATIENCE):
            await conversation.abort()
            await eventually(lambda: is_over(on, held.task_ids[0]))
        traffic.cancel()
        assert (await (await conversation.submit("last")).wait()).answer_text == "last!"

        ends = [await conversation.submission(f"r{n}").wait() for n in range(len(sent))]
        messages = [entry.message for entry in await conversation.transcript()]
        said = [message.text for message in messages if isinstance(message, UserMessage)]
        answered = [content for content, end in zip(sent, ends, strict=True) if end.status == "done"]
        assert {(end.status, end.reason) for end in ends} == {("done", ""), ("unanswered", "aborted")}
        assert [text for text in said if text in answered] == answered
        assert len(said) == len(set(said))
        assert await longest_history(on, conversation) < EVENT_LIMIT // 2


async def is_over(on: Stage, workflow_id: str) -> bool:
    return (await on.client.get_workflow_handle(workflow_id).describe()).status != WorkflowExecutionStatus.RUNNING
