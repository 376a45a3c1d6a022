"""`tarry fork`, and how forks look in the other commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry.client import Conversation
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tarry.testing import ScriptedModel, say
from tests.support.answers import ask
from tests.support.command import Command
from tests.support.stage import app_of, stage


@pytest.fixture
async def tarry(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[tuple[Command, Conversation]]:
    """The command, and a conversation of four entries."""
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with stage(server, app, tmp_path / "store") as on:
        parent = on.harness.conversation("trunk")
        for text in ("one", "two"):
            await ask(parent, text)
        ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": str(tmp_path / "store")}
        yield Command(tmp_path, environment_of(server.address) | ours), parent
        async for found in on.client.list_workflows(f'TaskQueue = "{on.settings.task_queue}" AND CloseTime IS NULL'):
            await on.client.get_workflow_handle(found.id).terminate()


async def test_a_fork_is_made_shown_and_listed_with_its_parent(tarry: tuple[Command, Conversation]) -> None:
    command, _ = tarry
    made = await command.run("fork", "trunk", "--at", "1", "--as", "branch", "--json")
    again = await command.run("fork", "trunk", "--at", "1", "--as", "branch")
    shown = await command.run("transcript", "branch")
    told = await command.run("transcript", "branch", "--json")
    listed = await command.run("ps")
    explained = await command.run("explain", "branch")

    assert made.json == {"conversation_id": "branch", "parent": {"conversation_id": "trunk", "at": 1}}
    assert (again.code, again.out) == (0, "branch\n")
    assert shown.out.splitlines()[-2] == "── from here on its own: a fork of trunk at 1 ──"
    assert told.json["parent"] == {"conversation_id": "trunk", "at": 1}
    assert len(told.json["entries"]) == 2
    [line] = [line for line in listed.out.splitlines() if line.split()[-1:] == ["branch"]]
    assert "trunk at 1" in line
    assert "fork of       trunk at 1" in explained.out


async def test_a_fork_that_cannot_be_made_is_refused_in_one_line(tarry: tuple[Command, Conversation]) -> None:
    command, _ = tarry
    late = await command.run("fork", "trunk", "--at", "9")
    taken = await command.run("fork", "trunk", "--as", "trunk")
    nobody = await command.run("fork", "nobody")
    bad = await command.run("fork", "trunk", "--as", "a/b")

    assert [one.code for one in (late, taken, nobody, bad)] == [1, 1, 1, 2]
    assert late.err == "tarry: trunk has no entry 9: they are numbered from 0 to 3\n"
    assert taken.err.startswith("tarry: trunk is there already, no fork")
    assert nobody.err == "tarry: there is no conversation nobody\n"
    assert "must not hold" in bad.err
