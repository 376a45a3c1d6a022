"""What watching costs the server: bounded while something streams, nothing while nothing happens (spec §7.9)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.core.live import LiveView
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tests.support.rpcs import counted_rpcs
from tests.support.stage import app_of, stage
from tests.support.waiting import eventually
from tests.support.watching import Watch, watching

SECONDS = 3.0
WATCHERS = 3
LOOKS_A_SECOND = 5


class Words(BaseModel):
    text: str


ANSWER = Signal("watch.answer", 1, Words)


@tool(replay="safe")
async def ask(api: ToolApi) -> str | Sleep:
    """Ask a person."""
    match await api.read_signal(ANSWER, "a"):
        case Received(value=words):
            return words.text
    return Sleep(signals=[ANSWER.key("a")], ask="Which colour?")


def is_quiet(view: LiveView) -> bool:
    return view.run is None and bool(view.entries)


def updates(watch: Watch) -> int:
    """How often the answer grew."""
    return watch.types.count("message_update")


async def test_streaming_is_looked_at_five_times_a_second_and_idling_never(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel([say("word " * 6_000, chunks=6_000, delay=0.1)])  # until it is stopped
    async with stage(server, app_of(model), tmp_path) as on, contextlib.AsyncExitStack() as stack:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        watches = [await stack.enter_async_context(watching(conversation)) for _ in range(WATCHERS)]
        for watch in watches:
            await watch.shows(lambda view: view.run and view.run.message and view.run.message.text.text)
        before = await on.histories(conversation.id)

        began, heard = asyncio.get_running_loop().time(), [updates(watch) for watch in watches]

        def have_grown(counts: list[int]) -> bool:
            return all(count > before + 10 for count, before in zip(counts, heard, strict=True))

        with counted_rpcs() as streaming:
            await eventually(lambda: asyncio.sleep(0, [updates(watch) for watch in watches]), have_grown)
            seconds = asyncio.get_running_loop().time() - began
        after = await on.histories(conversation.id)
        await conversation.abort()
        await submission.wait()
        for watch in watches:
            await watch.shows(lambda view: is_quiet(view) and bool(view.settled))
        # What they look at last may still be under way; then they rest.
        await eventually(lambda: calls_in(SECONDS), lambda calls: calls <= WATCHERS)

        assert after == before
        assert set(streaming) <= {"describe_workflow_execution", "get_workflow_execution_history"}
        assert 10 * WATCHERS <= streaming["describe_workflow_execution"] <= (seconds * LOOKS_A_SECOND + 1) * WATCHERS


async def calls_in(seconds: float) -> int:
    """How much is asked of the server in that time."""
    with counted_rpcs() as counted:
        await asyncio.sleep(seconds)
    return sum(counted.values())


async def test_parked_run_costs_nothing_to_watch_and_shows_its_question(server: EmbeddedServer, tmp_path: Path) -> None:
    app = App(model=ScriptedModel([call("ask"), say("done")]), extensions=[Extension("desk", [ask], signals=[ANSWER])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        async with watching(conversation) as watch:
            view = await watch.shows(lambda view: view.questions)
            (question,) = view.questions
            assert (question.question, question.keys) == ("Which colour?", ("watch.answer/a",))
            assert view.run is not None
            assert [call.status for call in view.run.calls] == ["sleeping"]

            # What it looks at last may still be under way; then it rests.
            await eventually(lambda: calls_in(SECONDS), lambda calls: calls <= 1)

            await on.harness.signal(question.task_id, ANSWER, "a", Words(text="blue"))
            await submission.wait()
            # How the run went on may be in no view of its own: changes that come together are one.
            answered = await watch.shows(lambda view: is_quiet(view) and view.entries[-1].kind == "assistant")
            assert not answered.questions
