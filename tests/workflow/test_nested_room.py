"""A safe caller that awaits a child for long makes room: it is parked and run again (spec §4.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from activities.task import nesting
from tarry import ToolApi
from tarry.embedded import EmbeddedServer
from tarry.tools import tool
from tests.support.nesting_app import app_with, deliver, view_of
from tests.support.stage import stage
from tests.support.waiting import eventually


async def test_safe_code_that_awaits_a_parked_call_makes_room_and_goes_on_with_the_same_keys(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[str, int, str]] = []

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        runs.append((api.idempotency_key, api.attempt, str(api.wake)))
        first = await api.execute_tool("report", {"text": "hi"})
        with monkeypatch.context() as patch:
            if api.attempt == 1:
                patch.setattr(nesting, "PATIENCE", 0.2)
            second = await api.execute_tool("research", {"topic": "a"})
        return f"{first.structured['text']} {second.text}"

    async with stage(server, app_with(outer), tmp_path) as on:
        conversation = on.harness.conversation("nested-room")
        submission = await conversation.submit("go")
        owner = f"nested-room~{(await conversation.view()).nonce}/g1/t1.0"
        view = await eventually(
            lambda: view_of(on, owner), lambda found: found is not None and found.state == "waiting"
        )
        assert view is not None
        await deliver(on, view.on[0], "a")
        await submission.wait()
        texts = [e.message.text for e in await conversation.transcript() if e.kind == "tool_result" and e.message]

    assert texts == ["hi a: it rains"]
    assert runs == [(runs[0][0], 1, "None"), (runs[0][0], 2, "None")], "same key, wake and checkpoint: a rerun"


FanOut = Callable[[ToolApi], Awaitable[str]]


async def in_a_group(api: ToolApi) -> str:
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(api.execute_tool("research", {"topic": name}, key=name)) for name in ("a", "b")]
    return " & ".join(done.result().text for done in both)


async def gathered(api: ToolApi) -> str:
    both = (api.execute_tool("research", {"topic": name}, key=name) for name in ("a", "b"))
    found = await asyncio.gather(*both, return_exceptions=True)
    return " & ".join(getattr(one, "text", "no answer") for one in found)


@pytest.mark.parametrize("fan_out", [in_a_group, gathered])
async def test_calls_that_are_awaited_side_by_side_make_room_as_well(
    fan_out: Callable[[ToolApi], Awaitable[str]],
    server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nesting, "PATIENCE", 0.2)

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        return await fan_out(api)

    async with stage(server, app_with(outer), tmp_path) as on:
        conversation = on.harness.conversation(f"nested-{fan_out.__name__}")
        submission = await conversation.submit("go")
        owner = f"{conversation.id}~{(await conversation.view()).nonce}/g1/t1.0"
        left = {"a", "b"}
        while left:
            view = await eventually(lambda: view_of(on, owner), lambda found: found is not None and bool(found.on))
            assert view is not None
            topic = view.on[0].removeprefix(f"{owner}/k.")
            await deliver(on, view.on[0], topic)
            left.discard(topic)
        await submission.wait()
        texts = [e.message.text for e in await conversation.transcript() if e.kind == "tool_result" and e.message]

    assert texts == ["a: it rains & b: it rains"]
