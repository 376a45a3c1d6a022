"""A tool that owns a conversation, submits to it and parks until the submission settles (spec §7.2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from signals.box import Receipt
from tarry import SUBMISSION_SETTLED, App, Extension, Received, Signal, Sleep, ToolApi
from tarry.client import Conversation
from tarry.core.messages import UserMessage
from tarry.core.protocol import OWNER_MEMO
from tarry.core.waiting import RECEIPTS
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually
from workers.lost_sight import look


class Answered(BaseModel):
    text: str


ANSWER = Signal("app.answer", 1, Answered)


@tool(replay="safe")
async def ask_person(question: str, api: ToolApi) -> Sleep | str:
    """Ask a person."""
    match await api.read_signal(ANSWER, "answer"):
        case Received(value=answer):
            return answer.text
        case _:
            return Sleep(signals=[ANSWER.key("answer")], until=timedelta(hours=1), ask=question)


def subagent(seen: list[str]) -> Tool:
    async def cancel(api: ToolApi) -> None:
        await api.abort(await api.own_conversation("sub"))

    @tool(name="subagent", replay="safe", cancel=cancel)
    async def delegate(task: str, api: ToolApi) -> Sleep | str:
        """Delegate to a subagent."""
        match await api.read_signal(SUBMISSION_SETTLED, "answered"):
            case Received(value=settled):
                return f"{settled.status}: {settled.answer_text or settled.reason}"
            case _:
                pass
        child = await api.own_conversation("sub")
        seen.append(child)
        await api.submit(child, task, request_id="task", notify="answered")
        return Sleep(signals=[SUBMISSION_SETTLED.key("answered")])

    return delegate


def app_with(seen: list[str], answer: Callable[[ModelRequest], Reply]) -> App:
    return App(model=ScriptedModel.for_each_input([answer, answer]), extensions=[_extension(seen)])


def _extension(seen: list[str]) -> Extension:
    return Extension("test", [subagent(seen), ask_person], [ANSWER])


def by_role(request: ModelRequest) -> Reply:
    """The root delegates; the subagent asks; both then repeat the result they got."""
    first = next(message.text for message in request.messages if isinstance(message, UserMessage))
    last = request.messages[-1]
    if isinstance(last, UserMessage):
        return calls(call("subagent", task="sub")) if first == "root" else calls(call("ask_person", question="why?"))
    return say(f"{first} heard {last.text}")


async def calls_of(on: Stage, conversation: Conversation) -> str:
    """The id of the one call of the conversation's open run, once it sleeps."""

    async def find() -> str:
        view = await conversation.view()
        return f"{view.open_generation}/t1.0" if view.open_generation else ""

    task_id = await eventually(find)

    async def state() -> str:
        try:
            return (await on.harness.task(task_id)).state
        except Exception:
            return ""

    await eventually(state, lambda found: found == "sleeping")
    return task_id


async def test_a_subagent_that_waits_for_a_person_wakes_its_caller_when_its_submission_settles(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[str] = []
    async with stage(server, app_with(seen, by_role), tmp_path) as on:
        root = on.harness.conversation()
        submission = await root.submit("root")
        caller = await calls_of(on, root)
        child = on.harness.conversation(seen[0])
        asking = await calls_of(on, child)
        owner = await (await on.client.get_workflow_handle(child.id).describe()).memo_value(OWNER_MEMO, "")
        delivered = await on.harness.signal(asking, ANSWER, "answer", Answered(text="because"))
        settled = await submission.wait()
        receipts: list[Receipt] = await on.client.get_workflow_handle(caller).query(RECEIPTS, result_type=list[Receipt])

    assert (owner, delivered.answer) == (caller, "delivered")
    assert settled.answer_text == "root heard done: sub heard because"
    assert seen == [child.id], "its own conversation is made once"
    assert [(receipt.signal, receipt.answer) for receipt in receipts] == [("tarry.submission-settled", "delivered")]


async def test_a_subagent_that_answers_before_its_caller_has_parked_wakes_it_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool(replay="safe")
    async def quick(api: ToolApi) -> Sleep | str:
        state = await api.read_signal(SUBMISSION_SETTLED, "answered")
        if isinstance(state, Received):
            return state.value.answer_text or ""
        child = await api.own_conversation("sub")
        await api.submit(child, "sub", request_id="task", notify="answered")
        await eventually(lambda: api.read_signal(SUBMISSION_SETTLED, "answered"))
        return Sleep(signals=[SUBMISSION_SETTLED.key("answered")])

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return calls(call("quick")) if last.text == "root" else say(f"heard {last.text}")

    app = App(model=ScriptedModel.for_each_input([answer, answer]), extensions=[Extension("test", [quick])])
    async with stage(server, app, tmp_path) as on:
        settled = await (await on.harness.conversation().submit("root")).wait()

    assert settled.answer_text == "heard heard sub"


async def test_a_stop_of_the_caller_stops_what_its_subagent_does(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[str] = []
    async with stage(server, app_with(seen, by_role), tmp_path) as on:
        root = on.harness.conversation()
        submission = await root.submit("root")
        await calls_of(on, root)
        child = on.harness.conversation(seen[0])
        await calls_of(on, child)
        await root.abort()
        settled = await submission.wait()
        inner = await child.submission("task").wait()

    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    assert (inner.status, inner.reason) == ("unanswered", "aborted")


async def test_a_subagent_that_is_terminated_wakes_its_caller_with_an_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[str] = []
    async with stage(server, app_with(seen, by_role), tmp_path) as on:
        root = on.harness.conversation()
        submission = await root.submit("root")
        await calls_of(on, root)
        await calls_of(on, on.harness.conversation(seen[0]))
        assert await look(on.client, on.settings.task_queue) == 0
        await on.client.get_workflow_handle(seen[0]).terminate()

        assert await eventually(lambda: look(on.client, on.settings.task_queue)) == 1
        assert (await submission.wait()).answer_text == "root heard unanswered: lost"


async def test_a_caller_that_is_over_is_told_nothing_and_harms_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    ids: list[str] = []

    @tool
    async def leave(api: ToolApi) -> str:
        child = await api.own_conversation("sub")
        ids.append(child)
        await api.submit(child, "sub", request_id="task", notify="answered")
        return "left"

    def answer(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return calls(call("leave")) if last.text == "root" else say(f"heard {last.text}")

    app = App(model=ScriptedModel.for_each_input([answer, answer]), extensions=[Extension("test", [leave])])
    async with stage(server, app, tmp_path) as on:
        settled = await (await on.harness.conversation().submit("root")).wait()
        child = on.harness.conversation(ids[0])
        inner = await child.submission("task").wait()
        again = await (await child.submit("again")).wait()

    assert [end.status for end in (settled, inner, again)] == ["done"] * 3
