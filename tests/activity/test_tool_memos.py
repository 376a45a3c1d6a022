from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tarry import NoSuchConversation
from tarry.api import StaleRun, TaskFull, ToolApi
from tarry.core.protocol import ANNOUNCE, AnnounceInput
from tarry.tools import RetryTool, tool
from tests.support.parking import counts
from tests.support.tool_bench import signalling
from tests.support.tool_host import Host
from tests.support.waiting import PATIENCE


async def test_first_writer_of_a_memo_wins_over_reruns(host: Host) -> None:
    @tool(replay="safe")
    def draw(api: ToolApi) -> list[object]:
        drawn = api.memo_sync("number", {"drawn by": api.attempt})
        if api.attempt == 1:
            raise RetryTool
        return [api.attempt, drawn, api.memo_sync("nothing", None)]

    async with host.worker(draw):
        call = await host.start(draw)
        outcome = await call.result()

    assert json.loads(outcome.text) == [2, {"drawn by": 1}, None]


async def test_memo_of_an_async_tool_is_what_the_key_holds(host: Host) -> None:
    @tool
    async def remember(api: ToolApi) -> list[object]:
        return [
            await api.memo("key", 1),
            await api.memo("key", 2),
            *await asyncio.gather(*(api.memo(k, k) for k in "abc")),
        ]

    async with host.worker(remember):
        call = await host.start(remember)
        outcome = await call.result()

    assert json.loads(outcome.text) == [1, 1, "a", "b", "c"]


async def test_memo_that_is_asked_for_again_and_again_costs_no_event(host: Host) -> None:
    @tool
    async def poll(api: ToolApi) -> list[object]:
        return [await api.memo("job", None)] + [await api.memo("job", n) for n in range(50)]

    async with host.worker(poll):
        call = await host.start(poll)
        outcome = await call.result()

    happened = counts([event async for event in call.fetch_history_events()])
    assert json.loads(outcome.text) == [None] * 51
    # A server under load writes down tries of workflow tasks that it would else forget, so they are not counted.
    assert {name: count for name, count in happened.items() if not name.startswith("WORKFLOW_TASK_")} == {
        "WORKFLOW_EXECUTION_STARTED": 1,
        "ACTIVITY_TASK_SCHEDULED": 1,
        "WORKFLOW_EXECUTION_UPDATE_ACCEPTED": 1,
        "WORKFLOW_EXECUTION_UPDATE_COMPLETED": 1,
        "ACTIVITY_TASK_STARTED": 1,
        "ACTIVITY_TASK_COMPLETED": 1,
        "WORKFLOW_EXECUTION_COMPLETED": 1,
    }
    assert happened["WORKFLOW_TASK_COMPLETED"] < 51


async def test_memos_over_the_quota_of_a_call_are_refused(host: Host) -> None:
    @tool
    def hoard(api: ToolApi) -> int:
        for number in range(8):
            api.memo_sync(f"{number}", "x" * 63 * 1024)
        with pytest.raises(TaskFull, match="memo"):
            api.memo_sync("8", "x" * 63 * 1024)
        return len(api.memo_sync("7", ""))

    async with host.worker(hoard):
        call = await host.start(hoard)
        outcome = await call.result()

    assert outcome.text == str(63 * 1024)


async def test_memo_of_a_run_that_another_took_over_is_refused(host: Host) -> None:
    entered, release = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    @tool
    def remember(api: ToolApi) -> str:
        enter()
        release.wait(10)
        with pytest.raises(StaleRun):
            api.memo_sync("key", "zombie")
        return "refused"

    async with host.worker(remember):
        call = await host.start(remember)
        await entered.wait()
        await call.execute_update(ANNOUNCE, AnnounceInput(run=1, attempt=2), id="announce-1-2")
        release.set()
        outcome = await call.result()

    assert outcome.text == "refused"


async def test_commit_of_a_run_that_another_took_over_is_refused(host: Host) -> None:
    entered, release = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    @tool
    def commit(api: ToolApi) -> str:
        with pytest.raises(NoSuchConversation):  # as long as it may
            api.commit_sync(key="first", notes=["hello"])
        enter()
        release.wait(10)
        with pytest.raises(StaleRun):
            api.commit_sync(key="second", notes=["zombie"])
        return "refused"

    async with host.worker(commit):
        call = await host.start(commit)
        await entered.wait()
        await call.execute_update(ANNOUNCE, AnnounceInput(run=1, attempt=2), id="announce-1-2")
        release.set()
        outcome = await call.result()

    assert outcome.text == "refused"


async def test_memo_of_a_call_that_has_ended_is_refused(host: Host) -> None:
    entered, release, refused = asyncio.Event(), threading.Event(), asyncio.Event()
    enter, refuse = signalling(entered), signalling(refused)

    @tool
    def remember(api: ToolApi) -> None:
        enter()
        release.wait(10)
        try:
            api.memo_sync("key", "late")
        except StaleRun:
            refuse()

    async with host.worker(remember), asyncio.timeout(PATIENCE):
        call = await host.start(remember)
        await entered.wait()
        await call.terminate()
        release.set()
        await refused.wait()
