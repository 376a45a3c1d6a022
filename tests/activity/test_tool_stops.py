from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tarry.api import StaleRun, ToolApi
from tarry.core.protocol import GIVEN_BACK, WORKER_SHUTDOWN, Progress
from tarry.tools import tool
from tests.support.tool_bench import Bench, signalling


async def test_tool_over_its_timeout_is_stopped_and_keeps_its_output(bench: Bench) -> None:
    stopped = threading.Event()

    @tool(timeout=timedelta(seconds=0.05))
    async def poll(api: ToolApi) -> str:
        api.output("asked once\n")
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()
        return "never"

    outcome = await bench.run(poll)

    assert (outcome.code, outcome.is_error) == ("timeout", True)
    assert outcome.text.startswith("asked once\n")
    assert stopped.is_set()


async def test_aborted_async_tool_is_cancelled_and_its_output_kept(bench: Bench) -> None:
    entered, cancelled = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    @tool
    async def watch(api: ToolApi) -> str:
        api.output("watching\n")
        enter()
        try:
            await asyncio.sleep(3600)
        finally:
            api.output("put away\n")
            cancelled.set()
        return "never"

    outcome = await bench.cancelled(watch, entered, cancel_requested=True)

    assert (outcome.code, outcome.is_error) == ("aborted", True)
    assert outcome.text.startswith("watching\nput away\n")
    assert cancelled.is_set()


async def test_aborted_blocking_tool_sees_it_and_returns(bench: Bench) -> None:
    entered = asyncio.Event()
    enter = signalling(entered)

    @tool
    def watch(api: ToolApi) -> str:
        enter()
        while not api.is_cancelled:
            threading.Event().wait(0.001)
        return "too late"

    outcome = await bench.cancelled(watch, entered, cancel_requested=True)

    assert outcome.code == "aborted"
    assert outcome.facts.diagnostics[:-1] == ()


async def test_tool_that_ignores_an_abort_is_abandoned_with_a_remark(bench: Bench) -> None:
    entered, release = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    @tool
    async def block() -> str:
        enter()
        release.wait(10)
        return "too late"

    outcome = await bench.cancelled(block, entered, cancel_requested=True)
    release.set()

    assert outcome.code == "aborted"
    assert outcome.facts.diagnostics[0].endswith("its code may still be running. (abandoned)")


async def test_worker_shutdown_gives_the_run_back_with_its_progress(bench: Bench) -> None:
    entered = asyncio.Event()
    enter = signalling(entered)

    @tool(replay="safe")
    async def watch(api: ToolApi) -> str:
        api.output("watching\n")
        enter()
        await asyncio.sleep(3600)
        return "never"

    with pytest.raises(ApplicationError) as raised:
        await bench.cancelled(watch, entered, worker_shutdown=True)

    assert (raised.value.type, raised.value.non_retryable) == (WORKER_SHUTDOWN, True)
    assert raised.value.details == (Progress(text="watching\n"),)


async def test_run_the_server_gave_up_is_stale_at_once_and_ends_quietly(bench: Bench) -> None:
    entered, refused = asyncio.Event(), list[type[BaseException]]()
    enter = signalling(entered)

    @tool
    async def watch(api: ToolApi) -> str:
        enter()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            with pytest.raises(StaleRun) as raised:
                await api.memo("late", 1)
            refused.append(raised.type)
        return "too late"

    outcome = await bench.cancelled(watch, entered, not_found=True)

    assert (outcome.code, refused) == ("interrupted", [StaleRun])


@pytest.mark.parametrize("taken", ["paused", "reset"])
@pytest.mark.parametrize(("replay", "is_final"), [("unsafe", True), ("safe", False)])
async def test_run_that_is_taken_from_outside_is_given_back_and_only_a_safe_one_may_go_on(
    bench: Bench, replay: Any, is_final: bool, taken: str
) -> None:
    entered = asyncio.Event()
    enter = signalling(entered)

    @tool(replay=replay)
    async def watch(api: ToolApi) -> str:
        api.output("watching\n")
        enter()
        await asyncio.sleep(3600)
        return "never"

    with pytest.raises(ApplicationError) as raised:
        await bench.cancelled(watch, entered, **{taken: True})

    assert (raised.value.type, raised.value.non_retryable) == (GIVEN_BACK, is_final)
    assert raised.value.details == (Progress(text="watching\n"),)
