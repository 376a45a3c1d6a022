"""Agents in `tarry chat`: how they stand, the files that count, and what a grandchild asks (docs/subagents.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of, worker
from tests.support import delegating_app
from tests.support.command import Command
from tests.support.terminals import CTRL_D, at_terminal


@pytest.fixture(scope="module")
async def tarry(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The command where a server is configured and a worker serves agents that delegate."""
    folder = tmp_path_factory.mktemp("chat-agents")
    ours = {
        "TARRY_TASK_QUEUE": "chat-agents",
        "TARRY_SHUTDOWN_GRACE": "1",
        "TARRY_STORE": str(folder / "store"),
        "TARRY_CONFIG_DIR": str(folder / "config"),
    }
    command = Command(folder, environment_of(server.address) | ours)
    async with worker(delegating_app.NAME, log=folder / "worker.log", environment=command.environment):
        yield command


async def test_a_grandchild_asks_in_the_chat_of_its_root_that_rests_and_is_answered_there(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "asked") as (person, process):
        await person.sees("ready")
        person.types("start review start auth ask")
        await person.sees("done: Started /root/review")
        await person.sees("? ask_ana asks Ana, in /root/review/auth")
        await person.sees("Which colour?")
        person.types('{"text": "blue"}')
        await person.sees("answer delivered")
        person.types("/subagents")
        await person.sees("background · ")
        await person.sees("agent scout: Looks around.")
        await person.sees("/root/review (scout)")
        await person.sees("/root/review/auth (scout)")
        person.presses(CTRL_D)
        assert await process.wait() == 0


async def test_reload_lets_the_files_of_this_host_count(tarry: Command) -> None:
    agents = tarry.folder / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "critic.md").write_text("---\nname: critic\ndescription: Finds fault.\n---\nYou find fault.\n")
    async with at_terminal(tarry, "chat", "reloads") as (person, process):
        await person.sees("ready")
        person.types("/subagents")
        await person.sees("there is no conversation reloads")
        person.types("hello")
        await person.sees("heard hello")
        person.types("/reload")
        await person.sees("agents: critic")
        await person.sees("removed: scout")
        person.types("/subagents")
        await person.sees("agent critic: Finds fault.")
        (agents / "critic.md").write_text("no front matter")
        person.types("/reload")
        await person.sees("nothing was reloaded: ")
        person.presses(CTRL_D)
        assert await process.wait() == 0
