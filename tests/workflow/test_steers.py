"""Steers under pressure: every input is placed once, answered or told why not, whatever comes between (spec §6.2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import Client

from tarry import App, Extension
from tarry.client import Conversation, Submission
from tarry.core.mail import TAKE, TakeInput
from tarry.core.messages import UserMessage
from tarry.core.protocol import ABORT, SubmissionView
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.held import HeldModel, HeldTool
from tests.support.parking import wedges
from tests.support.stage import Stage, idle_stage, kinds, stage
from tests.support.waiting import eventually

PATIENCE = 180.0
"""Seconds after which a run hangs; fifty runs of a worker without a cache, on a busy machine, need less."""


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def looks(times: int) -> list[Reply]:
    """So many rounds, then an answer."""
    return [*(calls(call("look", what=str(number))) for number in range(times)), say("done")]


def users(entries: Sequence[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


async def ends(submissions: Sequence[Submission]) -> list[SubmissionView]:
    async with asyncio.timeout(PATIENCE):
        return list(await asyncio.gather(*(submission.wait() for submission in submissions)))


async def steered(conversation: Conversation, *texts: str) -> list[Submission]:
    return [await conversation.submit(text, when_busy="steer") for text in texts]


async def failures(on: Stage, conversation: Conversation) -> list[str]:
    """Workflow tasks that failed, of the conversation and its runs."""
    query = f'TarryConversation = "{conversation.id}"'
    found: list[str] = []
    async for run in on.client.list_workflows(query):
        history = await on.client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        found += wedges(list(history.events))
    return found


async def test_a_steer_that_comes_before_its_run_is_there_is_placed_at_the_first_boundary(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = App(model=ScriptedModel(looks(1)), extensions=[Extension("test", [look])])
    async with idle_stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        steers = await steered(conversation, "quickly")
        async with on.worker():
            settled = await ends([first, *steers])
            entries = await conversation.transcript()

    assert [end.answer_text for end in settled] == ["done", "done"]
    assert kinds(entries) == ["user", "assistant", "tool_result", "user", "assistant"]


async def test_a_follow_up_tells_the_run_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("done")])
    async with stage(server, App(model=model, extensions=[Extension("test", [held.tool])]), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        second = await conversation.submit("second")
        held.go.set()
        settled = await ends([first, second])

        assert [await signals(on.client, end) for end in settled] == [[], []]


async def signals(client: Client, view: SubmissionView) -> list[str]:
    """The names of the signals that a submission's run was sent."""
    history = await client.get_workflow_handle(view.generation_id).fetch_history()
    sent = [event.workflow_execution_signaled_event_attributes.signal_name for event in history.events]
    return [name for name in sent if name]


async def test_fifty_steers_at_once_are_each_placed_or_answered_once_and_in_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("done")])
    async with stage(server, App(model=model, extensions=[Extension("test", [held.tool])]), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        texts = [f"s{number}" for number in range(50)]
        steers = await steered(conversation, *texts)
        held.go.set()
        settled = await ends([first, *steers])
        entries = await conversation.transcript()
        wedged = await failures(on, conversation)

    assert {end.status for end in settled} == {"done"}
    assert users(entries) == ["first", *texts]
    assert wedged == []


async def test_steers_around_a_stop_stand_in_order_and_only_what_comes_after_it_is_answered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("done")])
    async with stage(server, App(model=model, extensions=[Extension("test", [held.tool])]), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        before = await steered(conversation, "s1", "s2")
        held.go.set()  # the boundary, at which a steer is taken, and the Stop come together
        await conversation.abort()
        after = await steered(conversation, "s3", "s4")
        settled = await ends([first, *before, *after])
        entries = await conversation.transcript()
        wedged = await failures(on, conversation)

    assert [end.reason for end in settled] == ["aborted"] * 3 + ["", ""]
    assert users(entries) == ["first", "s1", "s2", "s3", "s4"]
    assert wedged == []


async def test_a_run_that_asks_after_a_stop_gets_nothing_that_came_since(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its question can be under way when the Stop comes; here it is put by hand."""
    begun, go = threading.Event(), threading.Event()

    @tool
    def stubborn() -> str:
        """Do not hear of a Stop."""
        begun.set()
        go.wait(60)
        return "did it"

    async def has_begun() -> bool:
        return begun.is_set()

    model = ScriptedModel.for_each_input([calls(call("stubborn")), say("done")])
    async with stage(server, App(model=model, extensions=[Extension("test", [stubborn])]), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await eventually(has_begun)
        run_id = (await conversation.view()).open_generation or ""
        handle = on.client.get_workflow_handle(conversation.id)
        await handle.execute_update(ABORT)
        steers = await steered(conversation, "s1")
        await handle.signal(TAKE, TakeInput(generation_id=run_id, number=1))
        go.set()
        settled = await ends([first, *steers])

    assert [(end.status, end.reason) for end in settled] == [("unanswered", "aborted"), ("done", "")]


async def test_a_run_that_continues_as_new_keeps_placing_steers(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel([calls(call("work", what="a")), *looks(6)])
    app = App(model=model, extensions=[Extension("test", [held.tool, look])])
    async with stage(server, app, tmp_path, turnover_events=10) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        texts = ["s1", "s2", "s3"]
        steers = await steered(conversation, *texts)
        held.go.set()
        settled = await ends([first, *steers])
        entries = await conversation.transcript()
        runs = await on.histories(conversation.id)

    assert [end.answer_text for end in settled] == ["done"] * 4
    assert users(entries) == ["first", *texts]
    assert kinds(entries)[2:8] == ["tool_result", "user", "assistant"] * 2
    (turned_over,) = [names for id, names in runs.items() if id.endswith("/g1")]
    assert "WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in turned_over


async def test_a_conversation_that_continues_as_new_keeps_its_steers(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel.for_each_input([calls(call("look", what="a")), say("done")])
    app = App(model=model, extensions=[Extension("test", [look])])
    async with stage(server, app, tmp_path, turnover_events=10) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        texts = [f"s{number}" for number in range(6)]
        settled = await ends([first, *await steered(conversation, *texts)])
        entries = await conversation.transcript()
        runs = await on.histories(conversation.id)
        wedged = await failures(on, conversation)

    assert {end.status for end in settled} == {"done"}
    assert users(entries) == ["first", *texts]
    assert "WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in runs[conversation.id]
    assert wedged == []


async def test_steers_of_a_run_that_is_terminated_are_answered_unless_they_stand_in_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Two are queued; the first is placed at the boundary, and the run ends by force in the request after it."""
    held = HeldTool()

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1].text
        return calls(call("work", what="a")) if last == "first" else say(f"heard {last}")

    model = HeldModel(ScriptedModel.for_each_input([answer, answer]))
    model.go.set()
    async with stage(server, App(model=model, extensions=[Extension("test", [held.tool])]), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        steers = await steered(conversation, "s1", "s2")
        model.go.clear()
        model.asked.clear()
        held.go.set()
        await model.asked.wait()
        view = await conversation.view()
        await on.client.get_workflow_handle(view.open_generation or "").terminate()
        model.go.set()
        settled = await ends([first, *steers])
        entries = await conversation.transcript()

    assert [(end.status, end.reason) for end in settled] == [
        ("unanswered", "lost"),
        ("unanswered", "lost"),
        ("done", ""),
    ]
    assert users(entries) == ["first", "s1", "s2"]
