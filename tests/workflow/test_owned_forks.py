"""Forks and other conversations that a task owns: what they begin with, whose session they share, who stops them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from tarry import SUBMISSION_SETTLED, Agent, App, Extension, Received, Sleep, ToolApi
from tarry.client import ConversationExists, NoSuchEntry
from tarry.core.protocol import OWNER_MEMO
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.documents import PLAN, SHARED, adding, app_doing
from tests.support.forking import texts
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually


def owning(
    children: list[str], *, fork_at: int | None = None, forks: bool = True
) -> Callable[[ToolApi], Awaitable[None]]:
    """Owns a conversation, a fork of the own one or a new one."""

    async def work(api: ToolApi) -> None:
        parent = api.conversation_id if forks else None
        children.append(await api.own_conversation("child", fork_of=parent))

    return work


async def test_an_owned_conversation_begins_with_a_copy_of_its_owners_choices(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    children: list[str] = []
    async with stage(server, app_doing(owning(children, forks=False)), tmp_path) as on:
        owner = on.harness.conversation()
        chosen = {"cwd": "/work", "thinking": "low", "instructions": "Be brief.", "tools": ("work",)}
        await owner.configure(cwd="/work", thinking="low", instructions="Be brief.", tools=["work"])
        await ask(owner)
        child = on.harness.conversation(children[0])
        await owner.configure(cwd="/elsewhere")

        assert await child.agent() == Agent.model_validate(chosen)


async def test_an_owned_fork_shares_the_session_of_its_owner_and_copies_what_is_its_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    children: list[str] = []
    async with stage(server, app_doing(owning(children)), tmp_path) as on:
        root = on.harness.conversation()
        await root.configure(cwd="/work")
        await root.document(SHARED).edit(adding("a"))
        await root.document(PLAN).edit(adding("b"))
        await ask(root)
        child = on.harness.conversation(children[0])
        await child.document(SHARED).edit(adding("by the child"))
        await child.document(PLAN).edit(adding("c"))
        grandchild = await child.fork()
        await grandchild.document(SHARED).edit(adding("alone"))
        memo = await (await on.client.get_workflow_handle(child.id).describe()).memo_value(OWNER_MEMO, "")

        assert memo.startswith(f"{root.id}~")
        assert [(await one.document(SHARED).get()).steps for one in (root, child, grandchild)] == [
            ["a", "by the child"],
            ["a", "by the child"],
            ["a", "by the child", "alone"],
        ]
        assert [(await one.document(PLAN).get()).steps for one in (root, child, grandchild)] == [
            ["b"],
            ["b", "c"],
            ["b", "c"],
        ]
        assert [(await one.agent()).cwd for one in (child, grandchild)] == ["/work"] * 2
        assert await texts(child) == ["go", ""]


async def test_what_a_task_cannot_fork_is_told_to_it(server: EmbeddedServer, tmp_path: Path) -> None:
    told: list[str] = []

    async def work(api: ToolApi) -> None:
        await api.own_conversation("plain")
        for key, at in (("late", 99), ("plain", 0)):
            try:
                await api.own_conversation(key, fork_of=api.conversation_id, at=at)
            except (NoSuchEntry, ConversationExists) as error:
                told.append(type(error).__name__)

    async with stage(server, app_doing(work), tmp_path) as on:
        await ask(on.harness.conversation())

    assert told == ["NoSuchEntry", "ConversationExists"]


def deciding(request: ModelRequest) -> Reply | Call:
    """The root tries two ways, each in a fork, and waits for them; a fork answers by what it is told."""
    last = request.messages[-1].text
    if last == "wait":
        return call("waits")
    return call("branch") if last in ("go", "try it") else say(f"read {last}")


@tool(replay="safe")
async def waits(api: ToolApi) -> Sleep:
    """Wait, for ever as far as a test goes."""
    return Sleep(until=timedelta(hours=1))


def branching(forks: list[str], *, text: str = "try it") -> App:
    async def cancel(api: ToolApi) -> None:
        await api.abort(await api.own_conversation("aside"))

    @tool(replay="safe", cancel=cancel)
    async def branch(api: ToolApi) -> Sleep | str:
        state = await api.read_signal(SUBMISSION_SETTLED, "done")
        if isinstance(state, Received):
            return state.value.answer_text or state.value.reason
        fork = await api.own_conversation("aside", fork_of=api.conversation_id)
        forks.append(fork)
        await api.submit(fork, text if len(forks) == 1 else "stay", request_id="try", notify="done")
        return Sleep(signals=[SUBMISSION_SETTLED.key("done")], until=timedelta(hours=1))

    model = ScriptedModel.for_each_input([deciding, deciding])
    return App(model=model, extensions=[Extension("test", [branch, waits])])


async def test_forks_of_forks_that_wait_for_each_other_answer_their_owners(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    forks: list[str] = []
    async with stage(server, branching(forks), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.text, len(forks)) == ("read read read stay", 2)


async def test_a_stop_of_the_owner_stops_what_its_fork_does(server: EmbeddedServer, tmp_path: Path) -> None:
    forks: list[str] = []
    async with stage(server, branching(forks, text="wait"), tmp_path) as on:
        root = on.harness.conversation()
        submission = await root.submit("go")
        await eventually(lambda: is_parked(on, forks))
        await root.abort()
        settled = await submission.wait()
        inner = await on.harness.conversation(forks[0]).submission("try").wait()

    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    assert (inner.status, inner.reason) == ("unanswered", "aborted")


async def is_parked(on: Stage, forks: list[str]) -> bool:
    """Whether a call of the fork sleeps."""
    found = [item async for item in on.harness.work(conversation_id=forks[0])] if forks else []
    return any(item.state == "sleeping" for item in found)
