"""Forks of conversations in the middle of a run or a turn, before and after heads, across sealed and folded pages."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tarry import App, Extension, Received, Sleep, ToolApi, asking
from tarry.client import Conversation, forking
from tarry.core import folding, transcript
from tarry.core.forks import FORK_SOURCE
from tarry.core.messages import ToolMessage
from tarry.core.protocol import VIEW
from tarry.core.results import missing_result_text
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import ask
from tests.support.compacting import KEEP_LITTLE, talked, talker
from tests.support.forking import blobs, texts
from tests.support.parking import ANSWER, Answer
from tests.support.stage import Stage, app_of, kinds, stage
from tests.support.waiting import eventually


@tool(replay="safe")
async def waits(api: ToolApi) -> Sleep | str:
    """Wait for an answer."""
    match await api.read_signal(ANSWER, "k"):
        case Received(value=answer):
            return answer.text
        case _:
            return Sleep(signals=[ANSWER.key("k")], until=timedelta(hours=1))


@tool(replay="safe")
def recite(place: int) -> str:
    """Recite a line."""
    return f"{place} " * 200


def app_with(model: ScriptedModel, *tools: Tool) -> App:
    return App(model=model, extensions=[Extension("test", [waits, recite, *tools], signals=[ANSWER])])


async def parked(on: Stage, conversation: Conversation, turn: int, slot: int) -> str:
    """The id of a call, once it sleeps."""
    run = await eventually(lambda: open_run(conversation))
    task_id = f"{run}/t{turn}.{slot}"

    async def state() -> str:
        try:
            return (await on.harness.task(task_id)).state
        except Exception:
            return ""

    await eventually(state, lambda found: found == "sleeping")
    return task_id


async def open_run(conversation: Conversation) -> str:
    return (await conversation.view()).open_generation or ""


def asked_last(request: ModelRequest) -> Reply | Call:
    """The parent's input leads to three calls, anything else to an answer in text."""
    last = request.messages[-1].text
    if last == "go":
        return calls(call("recite", place=1), call("branch"), call("waits"))
    return say(f"read {last}")


async def test_a_fork_of_an_open_turn_has_results_for_its_calls_and_never_the_parents(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    forks: list[str] = []
    seen: list[ModelRequest] = []

    @tool(replay="safe")
    async def branch(api: ToolApi) -> str:
        forks.append(await api.own_conversation("aside", fork_of=api.conversation_id))
        return forks[0]

    model = ScriptedModel.for_each_input([asked_last, asked_last], on_request=seen.append)
    async with stage(server, app_with(model, branch), tmp_path) as on:
        parent = on.harness.conversation()
        submission = await parent.submit("go")
        task_id = await parked(on, parent, 1, 2)
        await eventually(lambda: asyncio.sleep(0, forks))
        aside = on.harness.conversation(forks[0])
        by_hand = await parent.fork()
        answered = [(await ask(fork, "what now?")).text for fork in (aside, by_hand)]
        await on.harness.signal(task_id, ANSWER, "k", Answer(text="yes"))
        ended = await submission.wait()

        assert answered == ["read what now?"] * 2
        assert ended.answer_text == "read yes"
        for fork, request in zip((aside, by_hand), seen[1:3], strict=True):
            results = [message for message in request.messages if isinstance(message, ToolMessage)]
            names = ("recite", "branch", "waits")
            assert [result.text for result in results] == [missing_result_text(name) for name in names]
            assert "yes" not in await texts(fork)
            assert kinds(await fork.transcript()) == ["user", "assistant", "user", "assistant"]
        assert kinds(await parent.transcript()) == ["user", "assistant", *["tool_result"] * 3, "assistant"]


async def test_a_fork_before_a_summary_reads_what_the_summary_stands_for(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_of(talker(asked=seen)), tmp_path, **KEEP_LITTLE) as on:
        parent = on.harness.conversation()
        await talked(parent, "one", "two")
        ended = await (await parent.compact()).wait()
        assert ended.entry is not None
        before, after = await parent.fork(ended.entry - 1), await parent.fork(ended.entry)
        for fork in (before, after):
            await talked(fork, "three")

        [first, second] = [request.messages for request in seen[-2:]]
        entries = await after.transcript()
        assert [message.text for message in first if message.role == "user"] == ["one", "two", "three"]
        assert second == tuple(entries[place].message for place in (ended.entry, ended.entry - 1, -2))


async def test_forks_at_every_entry_of_sealed_and_folded_pages_copy_nothing(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PAGE_BYTES", 1_500)
    monkeypatch.setattr(folding, "FAN", 2)
    model = ScriptedModel.for_each_input([lambda request: say(f"{request.messages[-1].text}!")])
    async with stage(server, app_of(model), tmp_path) as on:
        parent = on.harness.conversation()
        for number in range(14):
            await ask(parent, f"{number} " * 30)
        entries = await parent.transcript()
        levels = [page.level for page in (await parent.view()).pages]
        stored = blobs(tmp_path)
        places = range(0, len(entries), 3)
        forks = [await parent.fork(at) for at in places]

        assert blobs(tmp_path) == stored
        assert max(levels) >= 1
        for at, fork in zip(places, forks, strict=True):
            assert await fork.transcript() == entries[: at + 1]
        for fork in (forks[3], forks[-2]):
            before = await fork.transcript()
            for number in range(6):  # its own pages are sealed and folded with those it shares
                await ask(fork, f"own {number} " * 30)
            again = await fork.fork(len(before) - 2)
            assert (await fork.transcript())[: len(before)] == before
            assert await again.transcript() == before[:-1]


async def test_a_fork_of_a_run_that_sealed_pages_and_turned_over_has_its_entries(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PAGE_BYTES", 1_500)
    rounds = [calls(call("recite", place=turn), call("recite", place=turn)) for turn in range(8)]
    async with stage(server, app_with(_in_turn(rounds)), tmp_path, turnover_events=40) as on:
        parent = on.harness.conversation()
        await ask(parent, "hi")
        submission = await parent.submit("go")
        task_id = await parked(on, parent, len(rounds) + 1, 0)
        entries = await parent.transcript()
        places = [1, 2, 5, 10, len(entries) - 1]
        forks = [await parent.fork(at) for at in places]
        told = [await fork.transcript() for fork in forks]
        await on.harness.signal(task_id, ANSWER, "k", Answer(text="yes"))
        await submission.wait()
        answers = [(await ask(fork, "what now?")).text for fork in forks]

        assert told == [entries[: at + 1] for at in places]
        assert answers == ["fine"] * len(forks)
        assert (await parent.transcript())[: len(entries)] == entries


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_run_that_ends_while_it_is_forked_leaves_a_whole_fork(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """It ends between the look at its conversation and the one at it, and may even be forgotten by then."""
    looks: list[str] = []

    async def ask_late(client: Client, workflow_id: str, name: str, *rest: Any) -> Any:
        looks.append(name)
        if name == VIEW:
            await on.harness.signal(task_id, ANSWER, "k", Answer(text="yes"))
            await submission.wait()
            if is_gone:
                raise RPCError("forgotten", RPCStatusCode.NOT_FOUND, b"")
        return await asking.ask(client, workflow_id, name, *rest)

    async with stage(server, app_with(_in_turn([])), tmp_path) as on:
        parent = on.harness.conversation()
        submission = await parent.submit("go")
        task_id = await parked(on, parent, 1, 0)
        monkeypatch.setattr(forking, "ask", ask_late)
        fork = await parent.fork()

        assert await fork.transcript() == await parent.transcript()
        assert kinds(await fork.transcript()) == ["user", "assistant", "tool_result", "assistant"]
        assert looks == [FORK_SOURCE, VIEW, *([FORK_SOURCE] * 2 if is_gone else [])]


async def test_choices_of_an_open_run_count_in_a_fork_from_where_it_took_them_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_with(_in_turn([])), tmp_path) as on:
        parent = on.harness.conversation()
        submission = await parent.submit("go")
        task_id = await parked(on, parent, 1, 0)
        before = len(await parent.transcript())
        await parent.configure(cwd="/new")
        early = [await (await parent.fork(at)).agent() for at in (before - 1, None)]
        await on.harness.signal(task_id, ANSWER, "k", Answer(text="yes"))
        await submission.wait()
        late = [await (await parent.fork(at)).agent() for at in (before - 1, None)]

        assert [agent.cwd for agent in early] == [None, "/new"]
        assert late == early


def _in_turn(rounds: list[Reply]) -> ScriptedModel:
    """Plays the rounds after `go`, then waits, then is done; all else is fine."""

    def decide(request: ModelRequest) -> Reply | Call:
        spoken = [message.text for message in request.messages if message.role == "user"]
        if spoken[-1] != "go":
            return say("fine")
        results = [message for message in request.messages if isinstance(message, ToolMessage)]
        if len(results) < 2 * len(rounds):
            return rounds[len(results) // 2]
        has_waited = bool(results) and results[-1].name == "waits"
        return say("done") if has_waited else calls(call("waits"))

    return ScriptedModel.for_each_input([decide] * (len(rounds) + 2))
