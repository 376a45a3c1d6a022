from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from tarry.api import StaleRun, ToolApi
from tarry.core.protocol import Progress, ToolOutcome
from tarry.tools import tool
from tests.support.tool_bench import signalling
from tests.support.tool_host import Host
from tests.support.waiting import PATIENCE


async def published(host: Host, call: WorkflowHandle[Any, Any], fits: str) -> Progress:
    """The heartbeat of a call's tool, once its text is `fits`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for pending in (await call.describe()).raw_description.pending_activities:
                if pending.HasField("heartbeat_details"):
                    progress: Progress
                    [progress] = await host.client.data_converter.decode(pending.heartbeat_details.payloads, [Progress])
                    if progress.text == fits:
                        return progress


async def test_blocked_tools_keep_their_heartbeat_and_hold_up_nobody(host: Host) -> None:
    @tool
    def block_thread() -> str:
        threading.Event().wait(1.6)
        return "done"

    @tool
    async def block_loop() -> str:
        threading.Event().wait(1.6)
        return "done"

    @tool
    def quick() -> str:
        return "quick"

    async with host.worker(block_thread, block_loop, quick):
        blocked = [await host.start(block_thread), await host.start(block_loop)]
        other = await (await host.start(quick)).result()
        assert {(await call.describe()).status for call in blocked} == {WorkflowExecutionStatus.RUNNING}
        outcomes = [await call.result() for call in blocked]

    assert [outcome.text for outcome in (*outcomes, other)] == ["done", "done", "quick"]


async def test_stop_reaches_tools_that_block_their_thread_or_loop(host: Host) -> None:
    entered, release = asyncio.Semaphore(0), threading.Event()
    home = asyncio.get_running_loop()

    @tool
    def block_thread(api: ToolApi) -> None:
        api.output("thread\n")
        home.call_soon_threadsafe(entered.release)
        release.wait(30)

    @tool
    async def block_loop(api: ToolApi) -> None:
        api.output("loop\n")
        home.call_soon_threadsafe(entered.release)
        release.wait(30)

    async with host.worker(block_thread, block_loop), asyncio.timeout(PATIENCE):
        calls = [await host.start(block_thread), await host.start(block_loop)]
        for _ in calls:
            await entered.acquire()
        for call in calls:
            await call.cancel()
        outcomes = [await call.result() for call in calls]
    release.set()

    assert [outcome.code for outcome in outcomes] == ["aborted", "aborted"]
    assert [outcome.text.splitlines()[0] for outcome in outcomes] == ["thread", "loop"]


async def test_output_of_a_running_tool_is_seen_from_outside(host: Host) -> None:
    release = threading.Event()

    @tool
    def build(api: ToolApi) -> None:
        api.output("step 1\n")
        release.wait(10)

    async with host.worker(build):
        call = await host.start(build)
        progress = await published(host, call, "step 1\n")
        release.set()
        outcome = await call.result()

    assert progress == Progress(text="step 1\n")
    assert outcome.text == "step 1\n"


async def test_tool_whose_call_was_terminated_is_told_and_cancelled(host: Host) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()
    enter, cancel = signalling(entered), signalling(cancelled)

    @tool
    async def watch(api: ToolApi) -> None:
        enter()
        try:
            await asyncio.sleep(3600)
        finally:
            with pytest.raises(StaleRun):
                api.output("late")
            cancel()

    async with host.worker(watch), asyncio.timeout(PATIENCE):
        call = await host.start(watch)
        await entered.wait()
        await call.terminate()
        await cancelled.wait()


async def test_tool_that_ends_within_the_workers_grace_keeps_its_result(host: Host) -> None:
    entered, release = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    @tool
    def pay(api: ToolApi) -> str:
        enter()
        release.wait(10)
        return f"paid, cancelled: {api.is_cancelled}"

    first = host.worker(pay, shutdown_grace=10)
    stopping = asyncio.create_task(serve_until(first, entered))
    call = await host.start(pay)
    await entered.wait()
    release.set()
    await stopping
    async with host.worker(pay):
        outcome = await call.result()

    assert outcome.text == "paid, cancelled: False"


async def serve_until(worker: Any, event: asyncio.Event) -> None:
    async with worker:
        await event.wait()


@pytest.mark.parametrize(
    ("replay", "expected"),
    [("safe", ("", "attempt 2")), ("unsafe", ("interrupted", "attempt 1"))],
)
async def test_worker_that_stops_gives_back_a_safe_tool_and_interrupts_an_unsafe_one(
    host: Host, replay: Any, expected: tuple[str, str]
) -> None:
    entered = asyncio.Event()
    enter = signalling(entered)

    @tool(replay=replay)
    async def watch(api: ToolApi) -> None:
        api.output(f"attempt {api.attempt}\n")
        enter()
        if api.attempt == 1:
            await asyncio.sleep(3600)

    call = await host.start(watch)
    async with asyncio.timeout(PATIENCE):
        await serve_until(host.worker(watch), entered)
        async with host.worker(watch):
            outcome: ToolOutcome = await call.result()

    assert (outcome.code, outcome.text.splitlines()[0]) == expected


async def test_hook_of_an_unsafe_tool_tells_what_became_of_it(host: Host) -> None:
    entered = asyncio.Event()
    enter = signalling(entered)

    async def did_it(api: ToolApi) -> str:
        asked = await api.memo("asked", "first")
        return f"{asked} asked: paid, number {await api.memo('number', 'unknown')}"

    @tool(reconcile=did_it)
    async def pay(api: ToolApi) -> None:
        await api.memo("number", 7)
        enter()
        await asyncio.sleep(3600)

    call = await host.start(pay)
    async with asyncio.timeout(PATIENCE):
        await serve_until(host.worker(pay), entered)
        async with host.worker(pay):
            outcome = await call.result()

    assert (outcome.code, outcome.text) == ("", "first asked: paid, number 7")
