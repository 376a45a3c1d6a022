"""Conversations and their runs, played to be kept: every kind of state they can be in, each as small as it goes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from tarry.api import ToolApi
from tarry.client import Conversation
from tarry.core.commits import COMMIT, CommitInput
from tarry.core.conversation import ConversationInput, ConversationState
from tarry.core.inbox import RECENT, Record, pack
from tarry.core.protocol import ABORT, CONVERSATION, SUBMIT, SubmitInput, digest
from tarry.core.transcript import PAGE_BYTES
from tarry.entries import EntryReader
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Step, call, calls, empty, fail, raw_call, say
from tarry.tools import tool
from tests.replay.recorded_app import app as crashing
from tests.replay.studio import Studio
from tests.support.archives import archived
from tests.support.held import HeldMethod, HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of
from tests.support.waiting import eventually

QUICK = {"heartbeat_timeout": 4.0}


@tool(replay="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(sequential=True)
async def remember(what: str, api: ToolApi) -> str:
    """Remember something, and then something else under the same name."""
    await api.memo("what", what)
    return f"remembered {await api.memo('what', 'something else')}"


async def ask(conversation: Conversation, *inputs: str) -> None:
    """Submit one after the other and wait for each."""
    for content in inputs:
        await (await conversation.submit(content)).wait()


async def open_run(conversation: Conversation) -> str:
    """The workflow id of the run that is open, once one is."""

    async def find() -> str:
        return (await conversation.view()).open_generation or ""

    return await eventually(find)


async def plain_run(studio: Studio) -> None:
    async with studio.conversation(app_of(ScriptedModel.for_each_input([say("fine")]))) as (_, conversation):
        await ask(conversation, "one", "two")


async def parallel_round(studio: Studio) -> None:
    both = calls(call("look", what="a"), call("look", what="b"), call("unknown"), raw_call("look", "not JSON"))
    async with studio.conversation(app_of(ScriptedModel([both, say("done")]), look)) as (_, conversation):
        await ask(conversation, "go on")


async def sequential_round_with_memos(studio: Studio) -> None:
    both = calls(call("remember", what="a"), call("look", what="b"), call("remember", what="c"))
    async with studio.conversation(app_of(ScriptedModel([both, say("done")]), look, remember)) as (_, conversation):
        await ask(conversation, "go on")


async def large_input_and_result(studio: Studio) -> None:
    @tool
    def recite() -> str:
        return ("long " * 1_000 + "\n") * 8

    model = ScriptedModel.for_each_input([calls(call("recite"), call("recite")), say("done")])
    async with studio.conversation(app_of(model, recite)) as (_, conversation):
        await ask(conversation, "long " * 7_000)


async def provider_errors_and_empty_answers(studio: Studio) -> None:
    steps: list[Step] = [fail("retryable", "busy", partial="I was", retry_after=1.0), empty(), say("fine")]
    async with studio.conversation(app_of(ScriptedModel(steps))) as (_, conversation):
        await ask(conversation, "go on")


async def provider_refuses(studio: Studio) -> None:
    async with studio.conversation(app_of(ScriptedModel([fail("permanent", "no such model")]))) as (_, conversation):
        await ask(conversation, "go on")


async def stopped_in_a_model_request(studio: Studio) -> None:
    model = HeldModel(ScriptedModel.for_each_input([say("fine")]), partial="I was about to")
    async with studio.conversation(app_of(model), **QUICK) as (_, conversation):
        submission = await conversation.submit("go on")
        await model.asked.wait()
        await conversation.submit("queued")
        await conversation.abort()
        await submission.wait()
        model.go.set()
        await ask(conversation, "and now?")


async def stopped_in_tools(studio: Studio) -> None:
    held = HeldTool()
    model = ScriptedModel([calls(call("work", what="a"), call("work", what="b"))])
    async with studio.conversation(app_of(model, held.tool), **QUICK) as (on, conversation):
        submission = await conversation.submit("go on")
        await held.begun(2)
        await on.client.get_workflow_handle(conversation.id).execute_update(ABORT)
        await submission.wait()


async def stopped_while_a_provider_is_waited_for(studio: Studio) -> None:
    model = ScriptedModel([fail("retryable", "busy", retry_after=600.0)])
    async with studio.conversation(app_of(model)) as (_, conversation):
        submission = await conversation.submit("go on")
        await eventually(conversation.transcript, lambda entries: len(entries) == 2)
        await conversation.abort()
        await submission.wait()


async def cancelled_by_temporal(studio: Studio) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([call("work", what="a"), say("done")])
    async with studio.conversation(app_of(model, held.tool), **QUICK) as (on, conversation):
        first = await conversation.submit("go on")
        await held.begun()
        await on.client.get_workflow_handle(f"{await open_run(conversation)}/t1.0").cancel()
        await first.wait()
        second = await conversation.submit("go on")
        await held.begun(2)
        await on.client.get_workflow_handle(conversation.id).cancel()
        await second.wait()
        held.go.set()
        await ask(conversation, "and now?")


async def terminated_run_and_call(studio: Studio) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([call("work", what="a"), say("done")])
    async with studio.conversation(app_of(model, held.tool), **QUICK) as (on, conversation):
        for suffix in ("/t1.0", ""):
            submission = await conversation.submit("go on")
            await held.begun(1 if suffix else 2)
            await on.client.get_workflow_handle(f"{await open_run(conversation)}{suffix}").terminate("drill")
            await submission.wait()


async def long_run(studio: Studio) -> None:
    model = ScriptedModel([*[call("look", what=str(n)) for n in range(3)], say("done")])
    async with studio.conversation(app_of(model, look), turnover_events=10) as (_, conversation):
        await ask(conversation, "go on")


async def long_conversation(studio: Studio) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with studio.conversation(app, turnover_events=10) as (_, conversation):
        await ask(conversation, "long " * (PAGE_BYTES // 4), "two", "three")


async def _with_an_archive(on: Stage, conversation: Conversation) -> None:
    """It has answered `fill`, and its archive knows `r0`, whose content is `x`."""
    records = [Record(request_id=f"r{n}", content=digest("x"), status="unanswered", run=n) for n in range(RECENT)]
    state = ConversationState.born("0123456789ab")
    state.inbox.settled = {digest(record.request_id): pack(record) for record in records}
    input = ConversationInput(nonce=state.nonce, carry=state)
    await on.client.start_workflow(CONVERSATION, input, id=conversation.id, task_queue=on.settings.task_queue)
    await ask(conversation, "fill")
    await archived(conversation, on, "r0")


async def archived_submissions(studio: Studio) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with studio.conversation(app) as (on, conversation):
        await _with_an_archive(on, conversation)
        await (await conversation.submit("x", request_id="r0")).wait()
        await on.client.get_workflow_handle(conversation.id).signal(SUBMIT, {"content": "y", "request_id": "r0"})
        await eventually(conversation.view, lambda view: bool(view.refusals))


async def archived_in_a_commit(studio: Studio) -> None:
    """A commit brings again what only the archive knows, and something new."""
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with studio.conversation(app) as (on, conversation):
        await _with_an_archive(on, conversation)
        inputs = SubmitInput(content="x", request_id="r0"), SubmitInput(content="n", request_id="n0")
        handle = on.client.get_workflow_handle(conversation.id)
        await handle.execute_update(COMMIT, CommitInput(key="k", inputs=inputs))
        await conversation.submission("n0").wait()


async def looked_up_while_stopped(studio: Studio) -> None:
    """An input is looked up slowly when a Stop comes; then commits bring a run, and an input behind it."""
    work = HeldTool()
    work.go.set()
    app = app_of(ScriptedModel.for_each_input([call("work", what="a"), say("fine")]), work.tool)
    async with studio.conversation(app) as (on, conversation):
        await _with_an_archive(on, conversation)
        work.go.clear()
        with pytest.MonkeyPatch.context() as patch:
            looking = HeldMethod(patch, EntryReader, "archived")
            late = asyncio.create_task(conversation.submit("late", request_id="late"))
            await looking.reached.wait()
            await conversation.abort()
            await conversation.commit(inputs=["first"])
            await work.begun(2)
            await conversation.commit(inputs=["second"])
            looking.go.set()
            await late
        work.go.set()
        await eventually(conversation.view, lambda view: not (view.open_generation or view.queued))
        await ask(conversation, "again")


async def refused_signals(studio: Studio) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with studio.conversation(app) as (on, conversation):
        await ask(conversation, "one")
        handle = on.client.get_workflow_handle(conversation.id)
        await handle.signal("unknown")
        await handle.signal(SUBMIT)
        await handle.signal(SUBMIT, args=[1, 2])
        await handle.signal(SUBMIT, b"bytes")
        await handle.signal(SUBMIT, {"content": "two", "request_id": "r2"})
        await conversation.submission("r2").wait()


async def reset_run(studio: Studio) -> None:
    held, other = HeldTool(), HeldTool(name="finish")
    other.go.set()
    model = ScriptedModel([calls(call("work", what="a"), call("finish", what="b")), say("done")])
    async with studio.conversation(app_of(model, held.tool, other.tool)) as (on, conversation):
        submission = await conversation.submit("go on")
        await held.begun()
        run_id = await open_run(conversation)
        await on.client.get_workflow_handle(f"{run_id}/t1.1").result()
        await reset(studio, run_id)
        held.go.set()
        await submission.wait()


async def reset_run_that_parted(studio: Studio) -> None:
    """The model makes one of two calls again: the other one is left behind."""
    first, second, changed = HeldTool(), HeldTool(name="finish"), threading.Event()

    def decide(request: ModelRequest) -> Reply:
        both = (call("work", what="a"), call("finish", what="b"))
        return calls(*both[: 1 if changed.is_set() else 2])

    model = ScriptedModel([decide, say("done")])
    async with studio.conversation(app_of(model, first.tool, second.tool), **QUICK) as (_, conversation):
        submission = await conversation.submit("go on")
        await first.begun()
        await second.begun()
        changed.set()
        await reset(studio, await open_run(conversation))
        first.go.set()
        await submission.wait()


async def reset_conversation(studio: Studio) -> None:
    app = app_of(ScriptedModel.for_each_input([call("look", what="a"), say("done")]), look)
    async with studio.conversation(app) as (_, conversation):
        await ask(conversation, "one", "two")
        await reset(studio, conversation.id)
        await ask(conversation, "three")
        await reset(studio, conversation.id, "--reapply-exclude", "All")
        await ask(conversation, "another")


async def reset(studio: Studio, workflow_id: str, *options: str) -> None:
    """Back to the first workflow task."""
    place = ("--type", "FirstWorkflowTask", "--reason", "drill", *options)
    await succeeds(studio.server, "workflow", "reset", "--workflow-id", workflow_id, *place)


async def reset_call(studio: Studio) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([call("work", what="a"), say("done")])
    async with studio.conversation(app_of(model, held.tool), **QUICK) as (_, conversation):
        submission = await conversation.submit("go on")
        await held.begun()
        await reset(studio, f"{await open_run(conversation)}/t1.0")
        await submission.wait()


async def completed_by_hand(studio: Studio) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([call("work", what="a"), say("done")])
    async with studio.conversation(app_of(model, held.tool), **QUICK) as (_, conversation):
        submission = await conversation.submit("go on")
        await held.begun()
        call_id = f"{await open_run(conversation)}/t1.0"
        what = ("--workflow-id", call_id, "--activity-id", "1", "--result", '"done by hand"')
        await succeeds(studio.server, "activity", "complete", *what)
        await submission.wait()


async def given_back(studio: Studio) -> None:
    held, model = HeldTool(replay="safe"), HeldModel(ScriptedModel([call("work", what="a"), say("done")]))
    async with studio.unserved(app_of(model, held.tool), shutdown_grace=0.0) as (on, conversation):
        async with on.worker():
            submission = await conversation.submit("go on")
            await model.asked.wait()
        model.go.set()
        async with on.worker():
            await held.begun()
        held.go.set()
        async with on.worker():
            await submission.wait()


async def interrupted_tools(studio: Studio) -> None:
    async with studio.crashing(crashing) as (_, conversation):
        await ask(conversation, "crash", "crash_and_tell")


async def retried_tool(studio: Studio) -> None:
    async with studio.crashing(crashing) as (_, conversation):
        await ask(conversation, "crash_until 2")


async def held_tool(studio: Studio) -> None:
    async with studio.crashing(crashing, restart_limit=1) as (on, conversation):
        submission = await conversation.submit("crash_until 3")
        await on.harness.retry(await studio.held(on))
        await submission.wait()


async def held_model_request(studio: Studio) -> None:
    async with studio.crashing(crashing, restart_limit=1) as (on, conversation):
        submission = await conversation.submit("model")
        held = await studio.held(on)
        studio.recovered.touch()
        await on.harness.retry(held)
        await submission.wait()


RUNS: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        plain_run,
        parallel_round,
        sequential_round_with_memos,
        large_input_and_result,
        provider_errors_and_empty_answers,
        provider_refuses,
        stopped_in_a_model_request,
        stopped_in_tools,
        stopped_while_a_provider_is_waited_for,
        cancelled_by_temporal,
        terminated_run_and_call,
        long_run,
        long_conversation,
        archived_submissions,
        archived_in_a_commit,
        looked_up_while_stopped,
        refused_signals,
        reset_run,
        reset_run_that_parted,
        reset_conversation,
        reset_call,
        completed_by_hand,
        given_back,
        interrupted_tools,
        retried_tool,
        held_tool,
        held_model_request,
    )
}
