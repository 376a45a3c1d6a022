"""Workers die while a conversation is forked: there is one fork, whole, or the same one again (spec §16)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.testing import Stage
from tests.support import forks_app
from tests.support.answers import ask
from tests.support.forking import texts


async def test_a_fork_that_was_asked_of_a_killed_worker_is_made_by_the_next_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(forks_app.NAME, server=server, folder=tmp_path) as stage:
        first = await stage.start_worker()
        parent = stage.harness.conversation()
        await ask(parent, "one")
        await first.kill()
        forking = asyncio.create_task(parent.fork(conversation_id=f"{parent.id}-fork"))
        await stage.start_worker()
        fork = await forking
        again = await parent.fork(conversation_id=fork.id)

        assert await texts(fork) == await texts(again) == ["one", "fine"]
        assert (await ask(fork, "two")).text == "fine"
        assert await texts(parent) == ["one", "fine"]


async def test_a_tool_whose_worker_was_killed_after_its_fork_finds_the_same_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(forks_app.NAME, server=server, folder=tmp_path) as stage:
        first = await stage.start_worker()
        parent = stage.harness.conversation()
        submission = await parent.submit("fork")
        await first.wait()
        await stage.start_worker()
        await submission.wait()
        fork = stage.harness.conversation((await texts(parent))[2])
        await fork.submission("aside").wait()

        assert await texts(fork) == ["fork", "", "run 2", "fine"]
        view = await fork.view()
        assert view.parent is not None
        assert (view.parent.conversation_id, view.runs) == (parent.id, 2)
