"""Wrappers of extensions: around every tool, sync or async, and never a park of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.task import nesting
from tarry import App, DurableTask, Extension, HookCall, Run, Sleep, ToolApi, ToolResult, Wait, Wrap
from tarry.core.protocol import ToolOutcome
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tarry.tools import Tool, tool
from tests.support.parking import ANSWER, YES, Waits, start
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def echo_async(text: str) -> ToolResult:
    """Say it again."""
    return ToolResult(text)


def app_of(*wraps: Wrap, tools: tuple[Tool, ...] = (echo, echo_async)) -> App:
    """An application whose calls are started alone, each wrapper in an extension of its own, before the tools."""
    wrapping = [Extension(f"wrap{place}", wraps=[wrap]) for place, wrap in enumerate(wraps)]
    return App(model=ScriptedModel([say("unused")]), extensions=[*wrapping, Extension("test", tools, [ANSWER])])


async def ended(on: Stage, used: Tool, **arguments: Any) -> ToolOutcome:
    """The outcome of one call."""
    return await (await start(on, used, **arguments)).ends()


@pytest.mark.parametrize("used", [echo, echo_async])
async def test_wrappers_go_around_sync_and_async_tools_the_first_outermost(
    server: EmbeddedServer, tmp_path: Path, used: Tool
) -> None:
    told: list[HookCall] = []

    def outer(call: HookCall, run: Run) -> Any:
        told.append(call)
        return run(text=f"nice {call.arguments['text']}")

    async def inner(call: HookCall, run: Run) -> Any:
        told.append(call)
        result = await run()
        text = result.content if isinstance(result, ToolResult) else result
        return f"<{text}>"

    async with stage(server, app_of(outer, inner), tmp_path) as on:
        call = await start(on, used, text="ls")
        outcome, view = await call.ends(), await call.view()

    assert outcome.text == "<nice ls>"
    assert [seen.arguments for seen in told] == [{"text": "ls"}, {"text": "nice ls"}]
    assert {(seen.task_id, seen.caller, seen.tool) for seen in told} == {(call.id, call.id[:-5], used.name)}
    assert told[0].digest != told[1].digest
    assert view.arguments == {"text": "ls"}


async def test_a_wrapper_may_answer_in_place_of_the_tool(server: EmbeddedServer, tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def effect() -> None:
        """Do something."""
        ran.append("it")

    async with stage(server, app_of(lambda call, run: f"not {call.tool}", tools=(effect,)), tmp_path) as on:
        outcome = await ended(on, effect)

    assert (outcome.text, outcome.is_error, ran) == ("not effect", False, [])


async def limited(call: HookCall, run: Run) -> Any:
    """A wrapper with a time limit."""
    try:
        async with asyncio.timeout(0.2):
            return await run()
    except TimeoutError:
        return "took too long"


async def test_a_time_limit_of_a_wrapper_ends_sync_and_async_tools(server: EmbeddedServer, tmp_path: Path) -> None:
    ends: list[str] = []

    @tool
    async def hangs() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("async")

    @tool
    def works(api: ToolApi) -> None:
        """Work until told."""
        while not api.is_cancelled:
            threading.Event().wait(0.01)
        ends.append("sync")

    async with stage(server, app_of(limited, tools=(hangs, works)), tmp_path) as on:
        outcomes = [await ended(on, used) for used in (hangs, works)]

    assert [(outcome.text, outcome.is_error) for outcome in outcomes] == [("took too long", False)] * 2
    assert ends == ["async", "sync"]


async def test_sync_code_that_does_not_end_for_a_wrapper_is_abandoned_and_the_result_says_so(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    go = threading.Event()

    @tool
    def deaf() -> None:
        """Do not listen."""
        go.wait(30)

    async with stage(server, app_of(limited, tools=(deaf,)), tmp_path) as on:
        outcome = await ended(on, deaf)
    go.set()

    assert outcome.text.startswith("took too long")
    assert "its code may still be running" in outcome.text


async def test_a_park_of_the_tool_passes_through_and_its_woken_run_is_wrapped_too(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[str] = []
    waits = Waits(Sleep(signals=[ANSWER.key("done")]))

    async def counts(call: HookCall, run: Run) -> Any:
        value = await run()
        seen.append(type(value).__name__)
        return value

    async with stage(server, app_of(counts, counts, tools=(waits.tool,)), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await call.update("done", YES)
        outcome = await call.ends()

    assert outcome.text == "signal test.answer/done: yes"
    assert seen == ["Sleep", "Sleep", "str", "str"]


async def copies(call: HookCall, run: Run) -> Any:
    """Change a park of the tool."""
    return dataclasses.replace(await run(), until=timedelta(hours=1))


async def naps(call: HookCall, run: Run) -> Any:
    """Park after the tool has ended."""
    await run()
    return Sleep(until=timedelta(hours=1))


def waits_itself(call: HookCall, run: Run) -> Any:
    """Park in place of the tool."""
    return Wait(["somebody"])


@pytest.mark.parametrize("wrap", [copies, naps, waits_itself])
async def test_a_park_that_only_a_wrapper_asked_for_is_an_error_result(
    server: EmbeddedServer, tmp_path: Path, wrap: Wrap
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")]))
    async with stage(server, app_of(wrap, tools=(waits.tool,)), tmp_path) as on:
        outcome = await ended(on, waits.tool)

    assert (outcome.code, outcome.is_error) == ("invalid_park", True)
    assert "a wrapper asked for it" in outcome.text


async def twice(call: HookCall, run: Run) -> Any:
    """Run it again."""
    await run()
    return await run()


async def misleads(call: HookCall, run: Run) -> Any:
    """Give it what it does not take."""
    return await run(volume=11)


def breaks(call: HookCall, run: Run) -> Any:
    """Fail."""
    raise LookupError("no such prefix")


@pytest.mark.parametrize(
    ("wrap", "told", "runs"),
    [(twice, "may run its tool once", 1), (misleads, "volume", 0), (breaks, "LookupError: no such prefix", 0)],
)
async def test_a_wrapper_that_fails_fails_the_call_and_runs_nothing_twice(
    server: EmbeddedServer, tmp_path: Path, wrap: Wrap, told: str, runs: int
) -> None:
    ran: list[str] = []

    @tool(replay="safe")
    def effect() -> None:
        """Do something."""
        ran.append("it")

    async with stage(server, app_of(wrap, tools=(effect,)), tmp_path) as on:
        outcome = await ended(on, effect)

    assert (outcome.code, len(ran)) == ("tool_error", runs)
    assert told in outcome.text


async def test_a_stop_reaches_wrapped_sync_code(server: EmbeddedServer, tmp_path: Path) -> None:
    entered = threading.Event()
    ends: list[str] = []

    @tool
    def works(api: ToolApi) -> None:
        """Work until told."""
        entered.set()
        while not api.is_cancelled:
            threading.Event().wait(0.01)
        ends.append("told")

    async with stage(server, app_of(lambda call, run: run(), tools=(works,)), tmp_path) as on:
        call = await start(on, works)
        await eventually(lambda: asyncio.to_thread(entered.is_set))
        await on.harness.abort(call.id)
        outcome = await call.ends()

    assert (outcome.code, ends) == ("aborted", ["told"])
    assert "may still be running" not in outcome.text


async def test_safe_code_that_makes_room_for_a_nested_call_does_so_through_its_wrappers(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nesting, "PATIENCE", 0.1)
    wrapped: list[str] = []
    waits = Waits(Sleep(signals=[ANSWER.key("done")]))

    @tool(replay="safe")
    def outer(api: ToolApi) -> str:
        """Call another."""
        return api.execute_tool_sync("waits", {}, key="inner").text

    async def notes(call: HookCall, run: Run) -> Any:
        wrapped.append(call.tool)
        return await run()

    async with stage(server, app_of(notes, tools=(outer, waits.tool)), tmp_path) as on:
        call = await start(on, outer)
        await eventually(call.view, lambda view: view.state == "waiting")
        await on.harness.signal(waits.task_ids[0], ANSWER.name, "done", YES)
        outcome = await call.ends()

    assert outcome.text == "signal test.answer/done: yes"
    assert wrapped == ["outer", "waits", "waits", "outer"]


async def test_phases_of_durable_tasks_are_not_wrapped(server: EmbeddedServer, tmp_path: Path) -> None:
    job: DurableTask[str, str] = DurableTask("test.job", str, str)

    @job.phase
    def work(input: str) -> str:
        return input

    app = App(
        model=ScriptedModel([say("unused")]),
        extensions=[Extension("test", tasks=[job], wraps=[breaks])],
    )
    async with stage(server, app, tmp_path) as on:
        outcome = await (await on.harness.start_task(job, "done")).outcome()

    assert (outcome.status, outcome.result) == ("completed", "done")
