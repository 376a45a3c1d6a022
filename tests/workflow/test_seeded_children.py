"""Subagents that begin with what their parent has completed: where they are cut, what they are told (spec §17.30)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

from tarry import Agent, App, Extension, Received, Sleep, ToolApi
from tarry.client import Conversation
from tarry.core.protocol import OWNER_MEMO
from tarry.core.subagents.protocol import PATH_MEMO, ContextPolicy, tree_of
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import ask
from tests.support.parking import ANSWER, Answer
from tests.support.stage import Stage, kinds, stage
from tests.support.waiting import eventually

FRESH = ContextPolicy()
ALL = ContextPolicy(mode="all_completed")


def last(number: int) -> ContextPolicy:
    return ContextPolicy(mode="last_n_completed", completed_turns=number)


@tool(replay="safe")
def recite(place: int) -> str:
    """Recite a line."""
    return f"line {place}"


@tool(replay="safe")
async def waits(api: ToolApi) -> Sleep | str:
    """Wait for an answer."""
    match await api.read_signal(ANSWER, "k"):
        case Received(value=answer):
            return answer.text
        case _:
            return Sleep(signals=[ANSWER.key("k")], until=timedelta(hours=1))


def decide(request: ModelRequest) -> Reply | Call:
    """`go` leads to three calls, `recite` to one; anything else is repeated."""
    match request.messages[-1].text:
        case "go":
            return calls(call("recite", place=1), call("branch"), call("waits"))
        case "recite":
            return call("recite", place=0)
        case said:
            return say(f"{said}!")


def app_with(seen: list[ModelRequest], *tools: Tool) -> App:
    model = ScriptedModel.for_each_input([decide, decide], on_request=seen.append, summary=[say("in short")] * 5)
    return App(
        model=model, instructions="Be brief.", extensions=[Extension("test", [recite, waits, *tools], signals=[ANSWER])]
    )


@tool(replay="safe")
def branch() -> str:
    """Delegate, as far as the transcript goes."""
    return "delegated"


async def delegating(on: Stage, parent: Conversation) -> str:
    """Let a run of the parent make three calls, of which one waits; the id of the one that delegates."""
    await parent.submit("go")

    async def waiting() -> str:
        run = (await parent.view()).open_generation
        try:
            state = (await on.harness.task(f"{run}/t1.2")).state if run else ""
        except Exception:
            return ""
        return f"{run}/t1.1" if state == "sleeping" else ""

    return await eventually(waiting)


async def child_of(on: Stage, call_id: str, context: ContextPolicy, *, agent: Agent | None = None) -> Conversation:
    child = on.harness.conversation(f"agent-{uuid.uuid4().hex}", agent=agent)
    await child.seed(owner=call_id, context=context, tree=tree_of(call_id), path="/root/child")
    return child


def told(request: ModelRequest) -> list[str]:
    """What a request says of the conversation, each message with its role."""
    return [f"{message.role}: {message.text}" for message in request.messages]


async def test_a_child_of_an_open_turn_has_completed_turns_alone_and_the_parents_results_go_to_the_parent(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    children: list[Conversation] = []

    @tool(replay="safe")
    async def branch(api: ToolApi) -> str:
        children.append(await child_of(stages[0], api.task_id, ALL))
        return "delegated"

    async with stage(server, app_with(seen, branch), tmp_path) as on:
        stages = [on]
        parent = on.harness.conversation()
        await ask(parent, "recite")
        before = await parent.transcript()
        call_id = await delegating(on, parent)
        child = children[0]
        answer = await ask(child, "what now?")
        request = seen[-1]
        run = call_id.partition("/t")[0]
        await on.harness.signal(f"{run}/t1.2", ANSWER, "k", Answer(text="yes"))
        await eventually(lambda: is_idle(parent))

        assert answer.text == "what now?!"
        assert told(request) == ["user: recite", "assistant: ", "tool: line 0", "assistant: line 0!", "user: what now?"]
        assert kinds(await child.transcript()) == [*kinds(before), "seed", "user", "assistant"]
        assert kinds((await parent.transcript())[len(before) :]) == [
            "user",
            "assistant",
            *["tool_result"] * 3,
            "assistant",
        ]
        assert (await parent.transcript())[: len(before)] == before
        memo = await on.client.get_workflow_handle(child.id).describe()
        assert [await memo.memo_value(name, "") for name in (OWNER_MEMO, PATH_MEMO)] == [call_id, "/root/child"]


async def is_idle(conversation: Conversation) -> bool:
    return (await conversation.view()).open_generation is None
