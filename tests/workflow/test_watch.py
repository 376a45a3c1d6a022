"""Watching a conversation: the view, then each change, without an event in any history (spec §7.9)."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import query
from tarry.client import NoSuchConversation, looking
from tarry.client.watch import MAX_PENDING, Change, Listener, whole
from tarry.core.live import LiveView
from tarry.core.live_events import Snapshot
from tarry.core.messages import ToolMessage, Usage
from tarry.core.protocol import SUBMISSION
from tarry.core.transcript import Position
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, fail, say
from tests.support.held import HeldModel, HeldTool
from tests.support.stage import app_of, idle_stage, stage
from tests.support.waiting import PATIENCE, eventually
from tests.support.watching import watching


def is_streaming(view: LiveView) -> bool:
    return view.run is not None and view.run.message is not None and bool(view.run.message.text.text)


def said(view: LiveView) -> list[str]:
    """The kinds of its entries, but for what the model is told of itself."""
    return [entry.kind for entry in view.entries if entry.kind != "system"]


def is_answering(view: LiveView, request_id: str) -> bool:
    return view.run is not None and request_id in view.run.inputs


def is_quiet(view: LiveView) -> bool:
    return view.run is None and bool(view.entries)


async def test_watcher_sees_a_whole_run_in_order(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel([call("work", what="it"), say("one two three", chunks=3, delay=0.4)])
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go", request_id="first")
        async with watching(conversation) as watch:
            view = await watch.shows(lambda view: view.run and view.run.calls and view.run.calls[0].output.text)
            assert view.run is not None
            assert [(c.tool, c.status, c.output.text) for c in view.run.calls] == [("work", "running", "working on it")]
            assert (view.run.inputs, view.contact) == (("first",), "up")
            held.go.set()
            await watch.shows(lambda view: view.run and view.run.message and "one" in view.run.message.text.text)
            done = await watch.shows(is_quiet)
            await watch.shows(lambda view: view.settled)

        assert said(done) == ["user", "assistant", "tool_result", "assistant"]
        assert [one.answer_text for one in watch.view.settled] == [(await submission.wait()).answer_text]
        told = [kind for kind in watch.types if kind in {"tool_execution_end", "turn_end", "run_end", "submission"}]
        assert told[-3:] == ["turn_end", "run_end", "submission"]
        assert watch.types[watch.types.index("tool_execution_end") + 1] == "entry_appended"
        assert list(done.entries) == await conversation.transcript()


async def test_one_view_holds_the_whole_picture(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("done"), say("and that")]), partial="so far")
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation("picture")
        await conversation.submit("go", request_id="first")
        await conversation.submit("then this", request_id="second")

        async def look() -> LiveView:
            return await conversation.view()

        view = await eventually(look, is_streaming)

        assert view.run is not None
        assert view.run.message is not None
        assert (view.run.turn, view.run.phase, view.run.message.text.text) == (1, "model", "so far")
        assert [(item.request_id, item.text, item.mode) for item in view.inbox] == [
            ("second", "then this", "follow_up")
        ]
        assert (said(view), view.run.inputs) == (["user"], ("first",))
        model.go.set()
        await conversation.submission("second").wait()


async def test_any_number_of_watchers_adds_no_event(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel([call("work", what="it"), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        watched, alone = on.harness.conversation(), on.harness.conversation()
        submission = await watched.submit("go")
        async with contextlib.AsyncExitStack() as stack:
            watches = [await stack.enter_async_context(watching(watched)) for _ in range(8)]
            await held.begun()
            before = await on.histories(watched.id)
            await asyncio.gather(
                *(w.shows(lambda v: v.run and v.run.calls and v.run.calls[0].output.text) for w in watches)
            )
            assert await on.histories(watched.id) == before
            held.go.set()
            await submission.wait()
            await asyncio.gather(*(watch.shows(is_quiet) for watch in watches))
        await (await alone.submit("go")).wait()

        counts = [sorted(len(events) for events in (await on.histories(one.id)).values()) for one in (watched, alone)]
        assert counts[0] == counts[1]


async def test_watcher_lives_through_several_runs_and_turned_over_workflows(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    held.go.set()
    rounds = [calls(call("work", what=str(number))) for number in range(4)]
    model = ScriptedModel.for_each_input([*rounds, say("done")])
    async with stage(lowered_server, app_of(model, held.tool), tmp_path, turnover_events=20) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        async with watching(conversation) as watch:
            await first.wait()
            for number in range(3):
                held.go.clear()  # a run that is over between two looks is told by its entries alone
                name = f"again-{number}"
                submission = await conversation.submit(f"again {number}", request_id=name)
                await watch.shows(partial(is_answering, request_id=name))
                held.go.set()
                await submission.wait()
                await watch.shows(lambda view: view.run is None)
            await watch.shows(lambda view: view.run is None and len(said(view)) == 40)

            assert list(watch.view.entries) == await conversation.transcript()
            runs = {run.id for run in [await on.client.get_workflow_handle(conversation.id).describe()]}
            assert runs == {conversation.id}
        assert watch.types.count("run_start") >= 3
        names = await on.histories(conversation.id)
        assert any("WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in events for events in names.values())


async def test_no_worker_is_told_and_waited_for(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel.for_each_input([say("done")])
    async with idle_stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        async with watching(conversation) as watch:
            assert (watch.view.contact, watch.view.entries) == ("no_worker", ())
            async with on.worker():
                await submission.wait()
                await watch.shows(lambda view: is_quiet(view) and view.contact == "up")
            await conversation.submit("again")
            assert (await watch.shows(lambda view: view.contact == "no_worker" and view.entries)).entries
            async with on.worker():
                await watch.shows(lambda view: view.contact == "up" and len(said(view)) == 4 and view.run is None)


async def test_failed_request_shows_when_it_is_sent_again(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel([fail("retryable", "503", retry_after=1.5), say("done")])
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        async with watching(conversation) as watch:
            view = await watch.shows(lambda view: view.run and view.run.retry)
            assert view.run is not None
            assert view.run.retry is not None
            assert view.run.retry.why == "503"
            await submission.wait()
            await watch.shows(is_quiet)
        assert [kind for kind in watch.types if "retry" in kind][-1:] == ["auto_retry_end"]


async def test_call_that_is_over_shows_as_done_until_its_round_is(server: EmbeddedServer, tmp_path: Path) -> None:
    held, quick = HeldTool(), HeldTool("quick")
    quick.go.set()
    step = calls(call("quick", what="a"), call("work", what="b"))
    async with stage(server, app_of(ScriptedModel([step, say("done")]), held.tool, quick.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        async with watching(conversation) as watch:
            await watch.shows(lambda view: view.run and [call.status for call in view.run.calls] == ["done", "running"])
            held.go.set()
            await submission.wait()
            view = await watch.shows(is_quiet)
        results = [entry.message.text for entry in view.entries if isinstance(entry.message, ToolMessage)]
        assert results == ["did a", "did b"]
        assert watch.types.count("tool_execution_end") == 2


async def test_watch_of_a_conversation_that_ends_ends_itself(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel([say("done")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("go")).wait()

        async def all_of_it() -> int:
            return len([change async for change in conversation.watch()])

        task = asyncio.create_task(all_of_it())
        await asyncio.sleep(0)
        await on.client.get_workflow_handle(conversation.id).terminate()
        async with asyncio.timeout(PATIENCE):
            assert await task >= 1


async def test_unknown_conversation_is_an_error_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(ScriptedModel([])), tmp_path) as on:
        with pytest.raises(NoSuchConversation):
            await anext(on.harness.conversation("nobody-knows-it").watch())


async def test_events_begin_with_a_snapshot_and_go_on_with_what_happens(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("done")]), partial="so far")
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("go")
        kinds: list[str] = []
        async with asyncio.timeout(PATIENCE), contextlib.aclosing(conversation.events()) as events:
            async for event in events:
                kinds.append(event.type)
                if event.type == "message_update" or (
                    isinstance(event, Snapshot) and event.view.run and event.view.run.message
                ):
                    model.go.set()
                if event.type == "submission":
                    break

        assert kinds[0] == "snapshot"
        assert kinds[-2:] == ["run_end", "submission"]


async def test_slow_listener_gets_the_view_in_place_of_what_it_missed() -> None:
    view = LiveView(
        conversation_id="c",
        nonce="n",
        end=Position(),
        pages=(),
        open_generation=None,
        queued=(),
        runs=0,
        usage=Usage(),
    )
    listener, fast = Listener(), Listener()
    for runs in range(MAX_PENDING + 1):
        for one in (listener, fast):
            one.put(Change(view.model_copy(update={"runs": runs}), ()))
        await anext(fast)
    listener.end()

    assert [change async for change in listener] == [whole(view.model_copy(update={"runs": MAX_PENDING}))]


async def test_an_end_that_nobody_told_at_first_is_told_as_soon_as_somebody_answers(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HeldModel(ScriptedModel([say("done")]))
    silences: list[str] = []

    async def sometimes(handle: WorkflowHandle[Any, Any], name: str, *rest: Any, **more: Any) -> Any:
        if name == SUBMISSION and len(silences) < 2:
            silences.append(name)
            raise RPCError("nobody answered in time", RPCStatusCode.DEADLINE_EXCEEDED, b"")
        return await query(handle, name, *rest, **more)

    monkeypatch.setattr(looking, "query", sometimes)
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("go", request_id="first")
        async with watching(conversation) as watch:
            await watch.shows(lambda view: view.run is not None)
            model.go.set()
            settled = (await watch.shows(lambda view: view.settled)).settled

    assert [(one.request_id, one.status, one.answer_text) for one in settled] == [("first", "done", "done")]
    assert silences == [SUBMISSION] * 2
    assert watch.types.count("submission") == 1
