from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from activities.output import KEPT_BYTES, TAIL_BYTES, Output, progress_of
from activities.runner import Ended, StopReason, ToolThread, stop_reason, undisturbed
from tarry.connect import INLINE_BYTES
from tarry.core.protocol import Progress


def start(call: Callable[[], Any]) -> tuple[ToolThread, threading.Event]:
    stop = threading.Event()
    return ToolThread(call, stop, "tool"), stop


async def test_sync_code_runs_in_a_daemon_thread_of_its_own() -> None:
    thread, _ = start(threading.current_thread)

    ended = await thread.wait(5)

    assert ended is not None
    assert ended.value is not threading.current_thread()
    assert (ended.value.name, ended.value.daemon) == ("tool", True)


async def test_async_code_gets_an_event_loop_of_its_own() -> None:
    async def code() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    thread, _ = start(code)

    ended = await thread.wait(5)

    assert ended is not None
    assert isinstance(ended.value, asyncio.AbstractEventLoop)
    assert ended.value is not asyncio.get_running_loop()


async def test_code_that_never_awaits_leaves_the_workers_loop_free() -> None:
    entered, release = asyncio.Event(), threading.Event()
    home = asyncio.get_running_loop()

    async def code() -> str:
        home.call_soon_threadsafe(entered.set)
        release.wait(10)
        return "done"

    thread, _ = start(code)
    await entered.wait()
    release.set()

    assert await thread.wait(5) == Ended("done")


async def test_code_sees_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar[str]("variable")
    variable.set("caller")

    thread, _ = start(variable.get)

    assert await thread.wait(5) == Ended("caller")


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopIteration("x"), GeneratorExit()]
)
async def test_whatever_code_raises_is_its_end_and_not_the_workers(error: BaseException) -> None:
    def code() -> None:
        raise error

    thread, _ = start(code)

    assert await thread.wait(5) == Ended(error=error)


async def test_exit_called_in_async_code_is_its_end() -> None:
    async def code() -> None:
        sys.exit("bye")

    thread, _ = start(code)
    ended = await thread.wait(5)

    assert ended is not None
    assert isinstance(ended.error, SystemExit)


async def test_code_that_is_not_done_in_time_still_runs() -> None:
    release = threading.Event()
    thread, stop = start(lambda: release.wait(10))

    assert await thread.wait(0.01) is None
    assert not stop.is_set()

    release.set()
    assert await thread.wait(5) == Ended(True)


async def test_stop_cancels_a_coroutine_and_awaits_its_cleanup() -> None:
    entered, cleaned = asyncio.Event(), threading.Event()
    home = asyncio.get_running_loop()

    async def code() -> None:
        home.call_soon_threadsafe(entered.set)
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()

    thread, stop = start(code)
    await entered.wait()

    assert await thread.stop(5) is True
    assert cleaned.is_set()
    assert stop.is_set()


async def test_stop_tells_a_blocking_function_by_its_event() -> None:
    stop = threading.Event()
    thread = ToolThread(lambda: stop.wait(10), stop, "tool")

    assert await thread.stop(5) is True
    assert await thread.wait(0) == Ended(True)


async def test_code_that_ignores_stop_is_abandoned_after_the_grace() -> None:
    release = threading.Event()
    thread, _ = start(lambda: release.wait(10))

    assert await thread.stop(0.01) is False
    release.set()


async def test_what_code_left_in_its_loop_does_not_delay_its_end() -> None:
    entered, release = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(10)

    async def code() -> str:
        asyncio.get_running_loop().run_in_executor(None, hang)
        await asyncio.to_thread(entered.wait, 10)
        return "done"

    thread, _ = start(code)

    assert await thread.wait(5) == Ended("done")
    release.set()


async def test_more_blocking_calls_than_pool_threads_all_run() -> None:
    async def code() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(int, text) for text in map(str, range(100))))

    thread, _ = start(code)

    assert await thread.wait(10) == Ended(list(range(100)))


HANGING_TOOL = """
import asyncio, threading
from tarry.connect import INLINE_BYTES
from tarry.core.protocol import Progress
from activities.runner import ToolThread

async def tool():
    await asyncio.to_thread(threading.Event().wait)

async def main():
    entered = threading.Event()
    thread = ToolThread(tool, threading.Event(), "tool")
    await thread.stop(0.01)

asyncio.run(main())
print("left")
"""


async def test_hanging_tool_does_not_keep_the_process_alive() -> None:
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", HANGING_TOOL], capture_output=True, timeout=15, check=True
    )

    assert process.stdout == b"left\n"


async def test_undisturbed_work_ends_before_a_cancellation_counts() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        entered.set()
        await release.wait()
        return "stored"

    task = asyncio.create_task(undisturbed(work()))
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    release.set()

    assert await task == "stored"


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (ActivityCancellationDetails(cancel_requested=True), "abort"),
        (ActivityCancellationDetails(cancel_requested=True, worker_shutdown=True), "abort"),
        (ActivityCancellationDetails(worker_shutdown=True), "shutdown"),
        (ActivityCancellationDetails(not_found=True), "stale"),
        (ActivityCancellationDetails(timed_out=True), "stale"),
        (ActivityCancellationDetails(paused=True), "other"),
    ],
)
async def test_reason_of_a_stop_comes_from_the_platform(
    details: ActivityCancellationDetails, reason: StopReason
) -> None:
    environment = ActivityEnvironment()

    entered = asyncio.Event()

    async def body() -> StopReason:
        entered.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return stop_reason()
        raise AssertionError("not cancelled")

    running = asyncio.create_task(environment.run(body))
    await entered.wait()
    environment.cancel(details)

    assert await running == reason


async def test_flood_of_output_wakes_the_loop_once_until_it_is_read() -> None:
    read: list[str] = []
    output = Output(lambda: read.append(output.tail))

    for number in range(1000):
        output.add(f"{number}\n")
    await asyncio.sleep(0)
    await asyncio.to_thread(output.add, "more\n")
    await asyncio.sleep(0)

    flood = "".join(f"{number}\n" for number in range(1000))
    assert read == [flood, flood + "more\n"]


async def test_tail_of_output_is_its_newest_part_from_a_character_on() -> None:
    output = Output(lambda: None)

    output.add("old" * TAIL_BYTES)
    output.add("ü" * (TAIL_BYTES // 2))
    output.add("x")

    newest = "ü" * (TAIL_BYTES // 2 - 1) + "x"
    assert output.progress == Progress(text=newest, offset=3 * TAIL_BYTES + TAIL_BYTES // 2 + 1 - len(newest))


async def test_whole_output_is_kept_from_its_start_up_to_the_bound() -> None:
    output = Output(lambda: None)

    output.add("head\n")
    output.add("ü" * KEPT_BYTES)
    output.add("late")

    assert output.whole() == "head\n" + "ü" * ((KEPT_BYTES - 5) // 2)
    assert output.dropped_bytes == 5 + 2 * KEPT_BYTES + 4 - KEPT_BYTES
    assert output.tail.endswith("late")


async def test_output_holds_nothing_that_history_or_a_model_refuses() -> None:
    output = Output(lambda: None)

    output.add("a\ud800b\x00\x1b\tc\r\n")

    assert output.whole() == output.tail == "a\ufffdb\tc\r\n"


@pytest.mark.parametrize("character", ["\n", "あ", "𝄞", "\x01\n", "\ud800"])
async def test_heartbeat_of_any_long_text_is_no_work_for_the_store(character: str) -> None:
    text = character * 50_000

    progress = progress_of(text)

    shown = text.replace("\x01", "").replace("\ud800", "\ufffd")
    assert len(progress.model_dump_json().encode()) < INLINE_BYTES - 1024
    assert (shown[progress.offset :], len(progress.text.encode()) > TAIL_BYTES - 4) == (progress.text, True)
