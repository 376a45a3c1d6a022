"""Subagents that begin with what their parent has completed: where they are cut, what they are told (spec §17.30)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tarry import Agent, App, Extension, Received, Sleep, ToolApi
from tarry.client import Conversation, ConversationExists, NoSuchConversation
from tarry.client.seeding import Seed, Seeding
from tarry.client.sending import Road
from tarry.core import folding, transcript
from tarry.core.messages import SystemMessage
from tarry.core.protocol import OWNER_MEMO
from tarry.core.subagents.protocol import PATH_MEMO, ContextPolicy, tree_of
from tarry.embedded import EmbeddedServer
from tarry.entries import EntryCache, EntryReader
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import Call, Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import ask
from tests.support.compacting import KEEP_LITTLE
from tests.support.delegating import delegation, last_user
from tests.support.documents import NOTES, PLAN, SHARED, adding
from tests.support.forking import blobs, texts
from tests.support.parking import ANSWER, Answer
from tests.support.stage import Stage, idle_stage, kinds, stage
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
    match next(message for message in reversed(request.messages) if message.role != "system").text:
        case "go":
            return calls(call("recite", place=1), call("branch"), call("waits"))
        case "recite":
            return call("recite", place=0)
        case said:
            return say(f"{said}!")


def app_with(seen: list[ModelRequest], *tools: Tool) -> App:
    model = ScriptedModel.for_each_input([decide, decide], on_request=seen.append, summary=[say("in short")] * 5)
    extension = Extension("test", [recite, waits, *tools], signals=[ANSWER], documents=[PLAN, NOTES, SHARED])
    return App(model=model, instructions="Be brief.", extensions=[extension])


@tool(replay="safe")
def branch() -> str:
    """Delegate, as far as the transcript goes."""
    return "delegated"


async def delegating(on: Stage, parent: Conversation) -> str:
    """Let a run of the parent make three calls; the id of the one that delegates, when that is done and one waits."""
    await parent.submit("go")

    async def delegated() -> str:
        run = (await parent.view()).run
        states = [call.status for call in run.calls] if run else []
        return run.calls[1].task_id if run and states == ["done", "done", "sleeping"] else ""

    return await eventually(delegated)


async def child_of(on: Stage, call_id: str, context: ContextPolicy, *, agent: Agent | None = None) -> Conversation:
    child = on.harness.conversation(f"agent-{uuid.uuid4().hex}")
    await begin(on, child, call_id, context, agent)
    return child


async def begin(
    on: Stage, child: Conversation, call_id: str, context: ContextPolicy = ALL, agent: Agent | None = None
) -> None:
    """Begin it as a subagent that a call has asked for."""
    chosen = agent or Agent()
    reader = EntryReader(on.client, BlobStore(on.client.data_converter), EntryCache(1024 * 1024))
    road = Road(on.client, child.id, on.settings.task_queue, chosen, tree_of(call_id))
    await Seeding(on.client, reader, Seed(call_id, context, chosen, "/root/child")).start(road)


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
        await let_go(on, parent, call_id)

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


async def let_go(on: Stage, parent: Conversation, call_id: str) -> None:
    """Answer the call that waits beside the one that delegates, and let the run end."""
    await on.harness.signal(f"{call_id.rpartition('.')[0]}.2", ANSWER, "k", Answer(text="yes"))
    await eventually(lambda: is_idle(parent))


async def is_idle(conversation: Conversation) -> bool:
    return (await conversation.view()).open_generation is None


@pytest.mark.parametrize("context", [FRESH, ALL, last(3)], ids=lambda context: context.mode)
async def test_before_the_first_complete_turn_a_child_is_fresh(
    server: EmbeddedServer, tmp_path: Path, context: ContextPolicy
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_with(seen, branch), tmp_path) as on:
        parent = on.harness.conversation()
        await parent.configure(cwd="/work")
        await parent.document(PLAN).edit(adding("a"))
        child = await child_of(on, await delegating(on, parent), context)
        await ask(child, "hello")

        assert told(seen[-1]) == ["user: hello"]
        assert kinds(await child.transcript()) == ["user", "assistant"]
        assert (await child.view()).parent is None
        assert (await child.document(PLAN).get()).steps == []


async def test_a_child_is_told_its_own_prompt_and_nothing_of_its_parents(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_with(seen, branch), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        await parent.configure(instructions="Be loud.")
        await ask(parent, "two")
        call_id = await delegating(on, parent)
        child = await child_of(on, call_id, ALL, agent=Agent(instructions="Review.", tools=("recite",)))
        await ask(child, "three")
        await ask(child, "four")

        first, second = seen[-2:]
        assert told(first) == ["user: one", "assistant: one!", "user: two", "assistant: two!", "user: three"]
        assert [(request.instructions, [tool.name for tool in request.tools]) for request in (first, second)] == [
            ("Review.", ["recite"])
        ] * 2
        assert not any(isinstance(message, SystemMessage) for message in second.messages)
        assert second.messages[: len(first.messages)] == first.messages


async def test_behind_a_summary_a_child_is_told_it_unless_enough_whole_turns_come_after(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_with(seen, branch), tmp_path, **KEEP_LITTLE) as on:
        parent = on.harness.conversation()
        for text in ("one", "two", "three"):
            if text == "three":
                assert (await (await parent.compact()).wait()).status == "placed"
            await ask(parent, f"{text} " * 60)
        call_id = await delegating(on, parent)
        spoken: dict[str, list[str]] = {}
        for name, context in (("all", ALL), ("two", last(2)), ("one", last(1))):
            await ask(await child_of(on, call_id, context), "and now?")
            spoken[name] = [f"{message.role}: {message.text.split()[0]}" for message in seen[-1].messages]

        summarised = ["user: The", "assistant: two", "user: three", "assistant: three", "user: and"]
        assert spoken == {"all": summarised, "two": summarised, "one": summarised[2:]}


async def test_a_child_of_a_child_begins_with_what_that_was_told_and_has_completed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_with(seen, branch), tmp_path) as on:
        root = on.harness.conversation()
        for text in ("one", "two", "three"):
            await ask(root, text)
        child = await child_of(on, await delegating(on, root), last(2))
        early = await child_of(on, await delegating(on, child), ALL)
        await ask(early, "early")
        requests = [seen[-1]]
        await let_go(on, child, f"{(await child.view()).open_generation}/t1.1")
        call_id = await delegating(on, child)
        for context in (ALL, last(1)):
            await ask(await child_of(on, call_id, context), "late")
            requests.append(seen[-1])

        two_three = ["user: two", "assistant: two!", "user: three", "assistant: three!"]
        assert told(requests[0]) == [*two_three, "user: early"]
        own = ["user: go", "assistant: ", "tool: line 1", "tool: delegated", "tool: yes", "assistant: yes!"]
        assert told(requests[1]) == [*two_three, *own, "user: late"]
        assert told(requests[2]) == [*own, "user: late"]


async def test_a_child_that_is_begun_again_later_is_the_one_that_is_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with idle_stage(server, app_with(seen, branch), tmp_path) as on:
        parent, child = on.harness.conversation(), on.harness.conversation(f"agent-{uuid.uuid4().hex}")
        async with on.worker():
            await ask(parent, "one")
            call_id = await delegating(on, parent)
            await let_go(on, parent, call_id)
            await parent.reset()
            await ask(parent, "two")
            late = await child_of(on, call_id, ALL)
            for _ in range(2):
                await begin(on, child, call_id)
            await ask(child, "hello")
        await begin(on, child, call_id)  # also when no worker is up
        async with on.worker():
            entries = await child.transcript()
            assert await texts(child) == ["one", "one!", "hello", "hello!"]
            assert await texts(late) == ["one", "one!"]
            assert kinds(entries) == ["user", "assistant", "seed", "user", "assistant"]

            with pytest.raises(ConversationExists, match=r"is not the subagent of .*/t1\.0"):
                await begin(on, child, f"{call_id.rpartition('.')[0]}.0")
            await on.client.get_workflow_handle(child.id).terminate()
            with pytest.raises(NoSuchConversation, match="is over"):
                await begin(on, child, call_id)


async def test_documents_of_a_child_are_its_own_by_their_policy_and_those_of_the_session_the_roots(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_with([], branch), tmp_path) as on:
        root = on.harness.conversation()
        await root.configure(cwd="/work")
        await root.document(PLAN).edit(adding("a"))
        await ask(root, "one")
        call_id = await delegating(on, root)
        for document in (PLAN, NOTES, SHARED):
            await root.document(document).edit(adding("b"))
        child = await child_of(on, call_id, ALL)
        await child.document(SHARED).edit(adding("by the child"))
        await child.document(PLAN).edit(adding("c"))

        steps = [(await child.document(document).get()).steps for document in (PLAN, NOTES, SHARED)]
        assert steps == [["a", "c"], ["b"], ["b", "by the child"]]
        assert (await root.document(PLAN).get()).steps == ["a", "b"]
        assert (await root.document(SHARED).get()).steps == ["b", "by the child"]


async def test_of_a_long_parent_a_child_shares_everything_and_reads_two_pages_at_most(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PAGE_BYTES", 1_500)
    monkeypatch.setattr(folding, "FAN", 2)
    seen: list[ModelRequest] = []
    read = counting(monkeypatch)
    async with stage(server, app_with(seen, branch), tmp_path, **KEEP_LITTLE) as on:
        parent = on.harness.conversation()
        for number in range(14):
            await ask(parent, f"{number} " * 30)
            if number == 2:
                await (await parent.compact()).wait()
        before = await parent.transcript()
        assert max(page.level for page in (await parent.view()).pages) >= 1
        call_id = await delegating(on, parent)
        stored = blobs(tmp_path)
        for context, whole in ((ALL, 11), (last(4), 4)):
            read.clear()
            child = await child_of(on, call_id, context)
            assert read["page"] <= 2
            assert len(blobs(tmp_path) - stored) <= 1, "a page of its own at most, with what it copied of the tail"
            stored = blobs(tmp_path)
            assert (await child.transcript())[:-1] == before
            await ask(child, "and now?")
            assert sum(message.role == "user" for message in seen[-1].messages) == whole + (2 if context == ALL else 1)


def counting(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often pages are read."""
    read: Counter[str] = Counter()

    def wrapped(name: str) -> Callable[..., Any]:
        original = getattr(EntryReader, name)

        async def reads(self: EntryReader, *args: Any) -> Any:
            read[name] += 1
            return await original(self, *args)

        return reads

    monkeypatch.setattr(EntryReader, "page", wrapped("page"))
    return read


def forking(request: ModelRequest) -> Reply | Call:
    """A root that hands what it knows to an agent, beside a call that ends and one that waits."""
    match last_user(request), since_input(request):
        case "go", 0:
            fork = call("subagent_fork", agent="scout", prompt="Look.", task_name="look")
            return calls(call("recite", place=1), fork, call("waits"))
        case "go", 1:
            return call("wait_agent")
        case said, _:
            return say(f"{said}!")


def since_input(request: ModelRequest) -> int:
    """How often the model has answered since its last input."""
    last = max(place for place, message in enumerate(request.messages) if message.role == "user")
    return sum(message.role == "assistant" for message in request.messages[last:])


async def test_subagent_fork_beside_a_finished_and_a_parked_call_tells_complete_turns_and_the_task(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    extension = Extension("more", [recite, waits], signals=[ANSWER])
    scripts = {"scout": [say("seen")]}
    async with delegation(server, tmp_path, [forking] * 3, scripts, extensions=[extension]) as made:
        await ask(made.root, "one")
        submission = await made.root.submit("go")
        row = await made.becomes("/root/look", "idle")
        run = (await made.root.view()).open_generation
        await made.on.harness.signal(f"{run}/t1.2", ANSWER, "k", Answer(text="yes"))
        ended = await submission.wait()

        assert told(made.heard.requests["scout"][0]) == ["user: one", "assistant: one!", "user: Look."]
        assert ended.answer_text == "go!"
        child = await made.on.harness.conversation(row.agent_id).transcript()
        assert kinds(child) == ["user", "assistant", "seed", "user", "assistant"]
        root = await made.root.transcript()
        assert kinds(root)[2:] == ["user", "assistant", *["tool_result"] * 3, "assistant", "tool_result", "assistant"]
        assert root[:3] == child[:3]
