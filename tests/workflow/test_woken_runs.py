"""A woken run that is lost, refused or without its tool: its wake stays, its effects are not repeated (spec §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.core import task
from tarry.embedded import EmbeddedServer
from tarry.tools import RetryTool, tool
from tests.support.parking import ANSWER, HOUR, YES, Seen, Waits, start, waiting_app, wedges
from tests.support.stage import idle_stage, stage

DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)
NEXT = Sleep(signals=[ANSWER.key("next")], until=HOUR)


def is_woken(seen: Seen) -> bool:
    return bool(seen.wake)


async def test_safe_run_that_its_worker_gave_up_runs_again_with_the_same_wake_checkpoint_and_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE, NEXT, replay="safe", holds=is_woken)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, shutdown_grace=0) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
            await call.update("done", YES)
            await waits.ran(2)
        waits.go.set()
        async with on.worker():
            await call.parked(intent=2)
            await call.update("next", YES)
            outcome = await call.ends()

    first, lost, again, last = waits.seen
    assert lost == again
    assert (again.wake, again.checkpoint) == ("signal test.answer/done", 1)
    assert (last.wake, last.checkpoint) == ("signal test.answer/next", 2)
    assert len({seen.idempotency_key for seen in (first, again, last)}) == 3
    assert outcome.text == "signal test.answer/next: yes"


async def test_safe_run_that_asks_to_be_run_again_sees_the_same_wake(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[tuple[str, Any, str]] = []

    @tool(replay="safe")
    def retries(api: ToolApi) -> Sleep | str:
        seen.append((str(api.wake), api.checkpoint, api.idempotency_key))
        if api.wake is None:
            return Sleep(checkpoint="kept", signals=DONE.signals)
        if api.attempt < 2:
            raise RetryTool("busy")
        return "done"

    async with stage(server, waiting_app(retries), tmp_path) as on:
        call = await start(on, retries)
        await call.parked()
        await call.update("done", YES)
        assert (await call.ends()).text == "done"

    assert seen[1] == seen[2]
    assert seen[1][:2] == ("signal test.answer/done", "kept")


async def test_unsafe_woken_run_that_was_cut_off_is_cleaned_up_and_interrupted(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    cleaned: list[Any] = []

    def clean(api: ToolApi) -> None:
        cleaned.append((str(api.wake), api.checkpoint))

    waits = Waits(DONE, cancel=clean, holds=is_woken)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, shutdown_grace=0) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
            await call.update("done", YES)
            await waits.ran(2)
        async with on.worker():
            outcome = await call.ends()
            history = await call.history()

    assert outcome.code == "interrupted"
    assert cleaned == [("signal test.answer/done", 1)]
    assert len(waits.seen) == 2
    assert wedges(history) == []


async def test_tool_that_was_removed_while_it_waited_is_unavailable_and_the_result_names_its_checkpoint(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "NOT_HERE_PAUSE", 0.0)

    @tool
    def runs_ci() -> Sleep:
        return Sleep(checkpoint={"build": 4711}, signals=DONE.signals)

    async with idle_stage(server, waiting_app(runs_ci), tmp_path) as on:
        async with on.worker():
            call = await start(on, runs_ci)
            await call.parked()
        async with on.worker(waiting_app()):
            assert (await call.update("done", YES)).answer == "delivered"
            outcome = await call.ends()

    assert outcome.code == "tool_unavailable"
    assert '{"build": 4711}' in outcome.text


async def test_arguments_that_no_longer_fit_after_a_deploy_interrupt_the_woken_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool(name="runs_ci")
    def before(ref: str) -> Sleep:
        return DONE

    @tool(name="runs_ci")
    def after(branch: int) -> str:
        return "never"

    async with idle_stage(server, waiting_app(before), tmp_path) as on:
        async with on.worker():
            call = await start(on, before, ref="main")
            await call.parked()
        async with on.worker(waiting_app(after)):
            await call.update("done", YES)
            outcome = await call.ends()

    assert outcome.code == "interrupted"
    assert "may have partially run" in outcome.text
