"""Forks: a conversation that begins with the entries of another one, and goes on by itself (spec §16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.client import ConversationExists, NoSuchConversation, NoSuchEntry, ServerUnavailable
from tarry.core.agent import Agent
from tarry.core.ledger import Ledger
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, say
from tests.support.answers import ask
from tests.support.documents import NOTES, PLAN, SHARED, Plan, adding, app_doing
from tests.support.forking import blobs, nothing, texts
from tests.support.stage import app_of, idle_stage, stage


def echoing(seen: list[ModelRequest] | None = None) -> ScriptedModel:
    """Says what it was told last, for ever."""

    def echo(request: ModelRequest) -> Reply:
        return say(f"{request.messages[-1].text}!")

    return ScriptedModel.for_each_input([echo], on_request=None if seen is None else seen.append)


async def test_a_fork_has_the_entries_up_to_its_place_and_goes_on_by_itself(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[ModelRequest] = []
    async with stage(server, app_of(echoing(seen)), tmp_path) as on:
        parent = on.harness.conversation()
        for text in ("one", "two"):
            await ask(parent, text)
        stored = blobs(tmp_path)
        fork = await parent.fork(1)
        assert blobs(tmp_path) == stored
        await ask(fork, "other")
        await ask(parent, "three")

        assert await texts(fork) == ["one", "one!", "other", "other!"]
        assert await texts(parent) == ["one", "one!", "two", "two!", "three", "three!"]
        assert [message.text for message in seen[2].messages] == ["one", "one!", "other"]
        assert seen[2].session_id != seen[3].session_id == seen[0].session_id
        theirs, ours = await parent.transcript(), await fork.transcript()
        assert ours[:2] == theirs[:2]
        assert not {entry.chain for entry in ours[2:]} & {entry.chain for entry in theirs}


async def test_two_forks_that_say_the_same_have_different_chains(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        forks = [await parent.fork() for _ in range(2)]
        said = [(await ask(conversation, "same")).entries[2:] for conversation in (parent, *forks)]

        assert [[entry.message for entry in entries] for entries in said] == [[e.message for e in said[0]]] * 3
        assert len({entry.chain for entries in said for entry in entries}) == 6


async def test_a_fork_knows_nothing_of_its_parents_request_ids_usage_and_runs(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await (await parent.submit("one", request_id="r")).wait()
        await parent.commit(key="k", notes=["noted"])
        fork = await parent.fork()
        view = await fork.view()

        assert (await parent.usage(), await fork.usage()) != (Ledger(), Ledger())
        assert await fork.usage() == view.spent == Ledger()
        assert view.parent is not None
        assert (view.parent.conversation_id, view.parent.at) == (parent.id, 2)
        assert (await (await fork.submit("two", request_id="r")).wait()).answer_text == "two!"
        assert await fork.commit(key="k", notes=["noted"]) is True
        assert await parent.commit(key="k", notes=["noted"]) is False
        assert await texts(fork) == ["one", "one!", "two", "two!"]


async def test_a_fork_of_a_fork_shares_with_both(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        first = on.harness.conversation()
        await ask(first, "one")
        second = await first.fork()
        await ask(second, "two")
        third, early = await second.fork(2), await second.fork(0)
        await ask(third, "three")
        parents = [(await fork.view()).parent for fork in (third, early)]

        assert await texts(third) == ["one", "one!", "two", "three", "three!"]
        assert await texts(early) == ["one"]
        assert [(one.conversation_id, one.at) for one in parents if one] == [(second.id, 2), (second.id, 0)]


async def test_the_same_fork_under_the_same_id_is_the_one_that_is_there(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        await parent.fork(conversation_id=f"{parent.id}-b")
        await ask(parent, "two")
        again = [await parent.fork(at, conversation_id=f"{parent.id}-b") for at in (None, 1)]

        assert [await texts(fork) for fork in again] == [["one", "one!"]] * 2
        with pytest.raises(ConversationExists, match=r"a fork of .* at entry 1.*: fork under another id"):
            await parent.fork(0, conversation_id=f"{parent.id}-b")
        with pytest.raises(ConversationExists):
            await parent.fork(1, conversation_id=f"{parent.id}-b", agent=Agent(model="other"))
        with pytest.raises(ConversationExists, match="no fork"):
            await parent.fork(conversation_id=parent.id)


async def test_what_cannot_be_forked_says_why(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent, empty = on.harness.conversation(), on.harness.conversation()
        await ask(parent, "one")
        await empty.configure(model="m")

        with pytest.raises(NoSuchConversation, match="no conversation nobody"):
            await on.harness.conversation("nobody").fork()
        with pytest.raises(NoSuchEntry, match="no entry 2: they are numbered from 0 to 1"):
            await parent.fork(2)
        with pytest.raises(NoSuchEntry, match="no entry -1"):
            await parent.fork(-1)
        with pytest.raises(NoSuchEntry, match="no entries yet"):
            await empty.fork()
        with pytest.raises(ValueError, match="must not hold"):
            await parent.fork(conversation_id="a/b")


async def test_a_fork_needs_a_worker_and_says_so(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        async with on.worker():
            await ask(parent, "one")
        with pytest.raises(ServerUnavailable, match="no worker"):
            await parent.fork()
        async with on.worker():
            assert await texts(await parent.fork()) == ["one", "one!"]


async def test_documents_of_a_fork_are_those_of_its_entry_by_their_policy(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        parent = on.harness.conversation()
        before = len((await ask(parent, "go")).entries)
        for step in ("a", "b"):
            await parent.commit(notes=[step], edits=[document.edit(adding(step)) for document in (PLAN, NOTES, SHARED)])
        await parent.document(PLAN).edit(adding("c"))
        early, late, now = await parent.fork(before), await parent.fork(before + 1), await parent.fork()
        await early.document(PLAN).edit(adding("x"))
        await early.document(SHARED).edit(adding("y"))

        plans = [(await one.document(PLAN).get()).steps for one in (early, late, now, parent)]
        assert plans == [["a", "x"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]
        assert [await one.document(NOTES).get() for one in (early, now)] == [Plan(steps=["a", "b"])] * 2
        assert [(await one.document(SHARED).get()).steps for one in (early, parent)] == [["a", "b", "y"], ["a", "b"]]
        assert (await early.document(PLAN).snapshot_as_of(before - 1)).steps == []


async def test_choices_of_a_fork_are_those_of_its_entry_or_others(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        await parent.configure(cwd="/new", thinking="low")
        chosen = [
            await (await parent.fork(1)).agent(),
            await (await parent.fork()).agent(),
            await (await parent.fork(1, agent=Agent(cwd="/other"))).agent(),
        ]

        assert chosen == [Agent(), Agent(cwd="/new", thinking="low"), Agent(cwd="/other")]


async def test_parent_and_fork_turn_over_and_keep_what_they_share(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path, turnover_events=10) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        fork = await parent.fork()
        for number in range(4):
            for conversation in (parent, fork):
                await ask(conversation, str(number))

        assert await texts(fork) == await texts(parent)
        for conversation in (parent, fork):
            runs = await on.client.count_workflows(f'WorkflowId = "{conversation.id}"')
            assert runs.count > 2
        view = await fork.view()
        assert view.parent is not None
        listed = [item async for item in on.harness.work(conversation_id=fork.id)]
        assert [item.parent for item in listed] == [view.parent]


async def test_who_watches_a_fork_sees_what_it_shares_and_then_what_it_says(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        fork = await parent.fork()
        watching = fork.watch()
        first = (await anext(watching)).view
        await ask(fork, "two")
        last = first
        async for change in watching:
            last = change.view
            if len(last.entries) == 4 and last.run is None:
                break

        assert first.parent == last.parent is not None
        assert list(first.entries) == (await fork.transcript())[:2]
        assert [entry.message.text for entry in last.entries if entry.message] == ["one", "one!", "two", "two!"]


async def test_a_conversation_that_was_ended_by_force_can_be_forked(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        await ask(parent, "one")
        await on.client.get_workflow_handle(parent.id).terminate()
        fork = await parent.fork()

        assert (await ask(fork, "two")).text == "two!"
        assert await texts(fork) == ["one", "one!", "two", "two!"]


async def test_a_tail_that_is_too_large_for_a_start_becomes_a_page(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(echoing()), tmp_path) as on:
        parent = on.harness.conversation()
        large = "long " * 100_000
        await parent.write(large)
        await parent.write("short")
        forks = [await parent.fork(at) for at in (0, 1)]
        history = await on.client.get_workflow_handle(forks[1].id).fetch_history()

        for fork, notes in zip(forks, ([large], [large, "short"]), strict=True):
            assert [entry.note for entry in await fork.transcript()] == notes
        assert history.events[0].ByteSize() < 4_096
        assert (await ask(forks[1], "one")).text == "one!"
