"""Open questions at the root, wherever they were asked: from lists alone, and answered by the id found there."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from tarry import (
    SUBMISSION_SETTLED,
    App,
    Ask,
    Extension,
    HookApi,
    HookCall,
    Hooks,
    Question,
    Received,
    Signal,
    Sleep,
    ToolApi,
)
from tarry.client.questions import parked_work
from tarry.core.gates import arguments_digest
from tarry.core.messages import UserMessage
from tarry.core.paths import root_of
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.processes import environment_of
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.command import Command
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually


class Word(BaseModel):
    """What a person says."""

    text: str


WORD = Signal("test.word", 1, Word)


@tool(replay="safe")
async def ask_person(question: str, api: ToolApi) -> Sleep | str:
    """Ask a person."""
    match await api.read_signal(WORD, "answer"):
        case Received(value=word):
            return word.text
        case _:
            return Sleep(signals=[WORD.key("answer")], until=timedelta(hours=1), ask=Ask(text=question, for_whom="ops"))


@tool(replay="safe")
async def wait_quietly(api: ToolApi) -> Sleep:
    """Wait for a machine, and ask nobody."""
    return Sleep(signals=[WORD.key("machine")])


@tool(replay="safe")
async def research(topic: str, api: ToolApi) -> str:
    """Let another tool ask."""
    return (await api.execute_tool("ask_person", {"question": f"what of {topic}?"}, key="ask")).text


@tool(replay="safe")
async def delegate(task: str, api: ToolApi) -> Sleep | str:
    """Delegate to a subagent."""
    match await api.read_signal(SUBMISSION_SETTLED, "answered"):
        case Received(value=settled):
            return settled.answer_text or settled.reason
        case _:
            child = await api.own_conversation("sub")
            await api.submit(child, task, request_id="task", notify="answered")
            return Sleep(signals=[SUBMISSION_SETTLED.key("answered")])


@tool
def restart(host: str) -> str:
    """Restart a host."""
    return f"restarted {host}"


def gate(call: HookCall, api: HookApi) -> Sleep | None:
    """Ask before a restart."""
    if call.tool != "restart" or api.read_signal_sync(WORD, call.digest) is not None:
        return None
    return Sleep(signals=[WORD.key(call.digest)], ask=f"Restart {call.arguments['host']}?")


def respond(request: ModelRequest) -> Reply:
    """The input names the tool; what it says is the answer."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return say(f"heard {last.text}")
    name, _, rest = last.text.partition(" ")
    match name:
        case "delegate":
            return calls(call("delegate", task=rest))
        case "research":
            return calls(call("research", topic=rest))
        case "restart":
            return calls(call("restart", host=rest))
        case "all":
            return calls(call("ask_person", question="now?"), call("wait_quietly"), call("restart", host="db1"))
        case _:
            return calls(call("ask_person", question=rest))


app = App(
    model=ScriptedModel.for_each_input([respond, respond]),
    extensions=[
        Extension("test", [ask_person, wait_quietly, research, delegate, restart], [WORD]),
        Extension("gate", hooks=Hooks(before_tool=gate)),
    ],
)


async def asked(on: Stage, root: str, count: int = 1) -> list[Question]:
    """The questions of a root, once there are so many."""
    return await eventually(lambda: on.harness.questions(root), lambda found: len(found) == count)


def new_root() -> str:
    return f"root-{uuid.uuid4().hex[:8]}"


async def test_questions_of_a_conversation_are_those_that_a_person_is_asked(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = new_root()
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            conversation = on.harness.conversation(root)
            await conversation.submit("all")
            await asked(on, root, 2)
            run = (await conversation.view()).open_generation
        found = {question.tool: question for question in await on.harness.questions(root)}
        digest = arguments_digest("restart", {"host": "db1"})
        assert set(found) == {"ask_person", "restart"}
        plain, gated = found["ask_person"], found["restart"]
        assert (plain.question, plain.for_whom, plain.keys) == ("now?", "ops", ("test.word/answer",))
        assert plain.until is not None
        assert timedelta(minutes=59) < plain.until - plain.since <= timedelta(hours=1)
        assert (gated.question, gated.digest, gated.until) == ("Restart db1?", digest, None)
        assert json.loads(gated.arguments) == {"host": "db1"}
        assert gated.path == (root, run, f"{run}/t1.2")
        async with on.worker():
            await on.harness.signal(gated.task_id, WORD, digest, Word(text="yes"))
            assert [question.tool for question in await asked(on, root, 1)] == ["ask_person"]
            await conversation.abort()


async def test_question_of_a_nested_call_is_listed_at_the_root_and_answered_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = new_root()
    async with idle_stage(server, app, tmp_path) as on, on.worker():
        submission = await on.harness.conversation(root).submit("research rain")
        (question,) = await asked(on, root)
        run = question.path[1]
        await on.harness.signal(question.task_id, WORD, "answer", Word(text="wet"))
        settled = await submission.wait()
        left = await on.harness.questions(root)

    assert question.path == (root, run, f"{run}/t1.0", f"{run}/t1.0/k.ask")
    assert (question.question, settled.status, left) == ("what of rain?", "done", [])


async def test_question_two_subagents_down_is_listed_at_the_root_with_everybody_on_the_way(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = new_root()
    command = Command(tmp_path, environment_of(server.address))
    async with idle_stage(server, app, tmp_path) as on, on.worker():
        submission = await on.harness.conversation(root).submit("delegate delegate research snow")
        (question,) = await asked(on, root)
        listed, drawn = await command.run("ps", "--json"), await command.run("ps")
        below = await on.harness.questions(question.path[3])
        await on.harness.signal(question.task_id, WORD, "answer", Word(text="cold"))
        settled = await submission.wait()

    path = question.path
    assert (path[0], path[-1], len(path)) == (root, question.task_id, 10)
    assert [step.partition("-")[0] for step in path if "/" not in step] == ["root", "sub", "sub"]
    assert [other.task_id for other in below] == [question.task_id], "asked of a conversation on the way"
    assert [item["path"] for item in listed.json["work"] if item["id"] == path[-1]] == [list(path)]
    assert f"{root} › delegate › delegate › research › ask_person" in drawn.out
    assert settled.status == "done"


async def test_a_name_that_ends_in_a_backslash_hides_no_question_of_anybody(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app, tmp_path) as on, on.worker():
        roots = [new_root(), new_root() + "\\"]
        for root in roots:
            await on.harness.conversation(root).submit("research rain")
        (question,) = await asked(on, roots[0])
        both = await eventually(
            lambda: parked_work(on.client, on.settings.task_queue, 10), lambda found: len(found) == len(roots)
        )
        for root in roots:
            await on.harness.conversation(root).abort()

    assert {root_of(one.task_id) for one in both} == {*roots}
    assert question.path[0] == roots[0]


async def test_questions_of_nobody_are_none(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        assert await on.harness.questions("no-such-conversation") == []
