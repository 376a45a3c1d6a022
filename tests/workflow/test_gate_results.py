"""`after_tool` hears of every result that a call writes, and may put another in its place (spec §5.6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.hooks import Block, CallResult, HookApi, HookCall, Replace
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import ToolResult, tool
from tests.support.answers import ask
from tests.support.gating import Heard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, Answer, Waits
from tests.support.stage import idle_stage, stage
from tests.support.waiting import eventually


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("broken")


def waits(call: HookCall, api: HookApi) -> Sleep:
    return Sleep(signals=[ANSWER.key("go")])


ENDS: dict[str, tuple[Any, str, bool]] = {
    "plain": (None, "", True),
    "blocked": (Block("no"), "blocked", False),
    "denied": (Block("no", code="denied"), "denied", False),
    "expired": (Block("no", code="expired"), "expired", False),
    "invalid arguments": (Replace({}), "invalid_arguments", False),
    "invalid park": (Sleep(), "invalid_park", False),
}


@pytest.mark.parametrize("name", ENDS)
async def test_hooks_hear_of_every_end_and_whether_the_call_ran(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    answer, code, ran = ENDS[name]
    heard = Heard()
    app = gated_app(Ledger().edit, gate(lambda call, api: answer, heard))
    async with stage(server, app, tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="a.txt")).ends()

    assert (outcome.code, heard.codes, heard.ran) == (code, [code], [ran])


async def test_hooks_hear_of_an_error_and_that_it_ran(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    async with stage(server, gated_app(fails, gate(after=heard)), tmp_path) as on:
        outcome = await (await start_gated(on, "fails")).ends()

    assert (outcome.code, heard.codes, heard.ran) == ("tool_error", ["tool_error"], [True])


@pytest.mark.parametrize("io", [False, True])
async def test_hooks_hear_of_a_call_that_was_stopped_at_its_gate(
    server: EmbeddedServer, tmp_path: Path, io: bool
) -> None:
    heard = Heard()
    async with stage(server, gated_app(Ledger().edit, gate(waits, heard, io=io)), tmp_path) as on:
        stopped = await start_gated(on, "edit", path="a.txt")
        await stopped.asks()
        await stopped.handle.cancel()
        outcome = await stopped.ends()

    assert (outcome.code, heard.codes, heard.ran) == ("aborted", ["aborted"], [False])


@pytest.mark.parametrize("parked", [True, False])
async def test_hooks_hear_of_a_call_that_was_stopped_later_and_that_it_ran(
    server: EmbeddedServer, tmp_path: Path, parked: bool
) -> None:
    heard = Heard()
    used = Waits(Sleep(signals=[ANSWER.key("go")]), holds=lambda _: not parked)
    async with stage(server, gated_app(used.tool, gate(after=heard)), tmp_path) as on:
        stopped = await start_gated(on, used.tool.name)
        await (stopped.parked() if parked else used.ran(1))
        await stopped.handle.cancel()
        outcome = await stopped.ends()

    assert (outcome.code, heard.codes, heard.ran) == ("aborted", ["aborted"], [True])


async def test_hooks_hear_of_a_call_that_was_interrupted(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    used = Waits(holds=lambda _: True)
    async with idle_stage(server, gated_app(used.tool, gate(after=heard)), tmp_path, shutdown_grace=0) as on:
        async with on.worker():
            cut_off = await start_gated(on, used.tool.name)
            await used.ran(1)
        async with on.worker():
            outcome = await cut_off.ends()

    assert (outcome.code, heard.codes, heard.ran) == ("interrupted", ["interrupted"], [True])


async def test_a_stop_while_hooks_hear_of_a_result_changes_neither(server: EmbeddedServer, tmp_path: Path) -> None:
    hears, go, heard = threading.Event(), threading.Event(), Heard()

    def slow(call: HookCall, result: CallResult, api: HookApi) -> None:
        hears.set()
        go.wait(20)
        heard(call, result, api)

    async with stage(server, gated_app(Ledger().edit, gate(after=slow, io=True)), tmp_path) as on:
        stopped = await start_gated(on, "edit", path="a.txt")
        await asyncio.to_thread(hears.wait)
        await stopped.handle.cancel()
        go.set()
        outcome = await stopped.ends()

    assert (outcome.text, heard.codes) == ("edited a.txt", [""])


def raises(call: HookCall, result: CallResult, api: HookApi) -> None:
    raise ValueError("no idea")


def hangs(call: HookCall, result: CallResult, api: HookApi) -> None:
    threading.Event().wait()


def answers(answer: Any) -> Callable[[HookCall, CallResult, HookApi], Any]:
    return lambda call, result, api: answer


FAILING: dict[str, tuple[Any, str]] = {
    "raises": (raises, "failed with ValueError: no idea"),
    "hangs": (hangs, "gave no answer in time"),
    "answers nonsense": (answers("all is well"), "returned a str"),
    "answers what has no text": (answers(ToolResult(object())), "returned what cannot be encoded"),
}


@pytest.mark.parametrize("name", FAILING)
async def test_a_hook_that_fails_leaves_the_result_with_a_remark_and_the_next_one_hears(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    hook, problem = FAILING[name]
    heard = Heard()
    app = gated_app(Ledger().edit, gate(after=hook, name="first"), gate(after=heard, name="second"))
    async with stage(server, app, tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="a.txt")).ends()

    assert outcome.text.startswith(f"edited a.txt\n<harness>\n[warn] hook first {problem}")
    assert (outcome.is_error, outcome.code, heard.codes) == (False, "", [""])


async def test_another_result_is_what_the_next_hook_and_the_model_see_and_how_it_ended_stays(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: list[str] = []

    def hides(call: HookCall, result: CallResult, api: HookApi) -> ToolResult:
        return ToolResult(result.text.replace("broken", "***"), is_error=result.is_error, details={"hidden": 1})

    def sees(call: HookCall, result: CallResult, api: HookApi) -> None:
        seen.append(result.text)

    app = gated_app(fails, gate(after=hides, name="hides"), gate(after=sees, name="sees"))
    async with stage(server, app, tmp_path) as on:
        outcome = await (await start_gated(on, "fails")).ends()

    assert (outcome.code, outcome.is_error, outcome.facts.details) == ("tool_error", True, {"hidden": 1})
    assert "***" in outcome.text
    assert "broken" not in outcome.text
    assert seen == [outcome.text]


async def test_nested_calls_have_gates_and_are_heard_of(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger, callers = Ledger(), dict[str, str]()

    def asks(call: HookCall, api: HookApi) -> Any:
        callers[call.tool] = call.caller
        waits_for = ANSWER.key("go")
        return None if call.tool != "edit" or api.read_signal_sync(ANSWER, "go") else Sleep(signals=[waits_for])

    heard: list[tuple[str, str]] = []

    def hears(call: HookCall, result: CallResult, api: HookApi) -> None:
        heard.append((call.tool, result.code))

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        """Edit by another tool."""
        nested = await api.execute_tool("edit", {"path": "a.txt"}, key="a")
        missing = await api.execute_tool("nowhere", {}, key="b")
        return f"{nested.text}, {missing.code}"

    extension = Extension("test", [outer, ledger.edit], [ANSWER])
    app = App(model=ScriptedModel([say("unused")]), extensions=[extension, gate(asks, hears)])
    async with stage(server, app, tmp_path) as on:
        caller = await start_gated(on, "outer")
        nested = f"{caller.id}/k.a"
        sent = lambda: on.harness.signal(nested, ANSWER, "go", Answer(text="yes"))  # noqa: E731
        await eventually(sent, lambda found: found.answer in ("delivered", "accepted"))
        outcome = await caller.ends()

    assert outcome.text == "edited a.txt, tool_unavailable"
    assert callers == {"outer": caller.id.rpartition("/")[0], "edit": caller.id}
    assert heard == [("edit", ""), ("outer", "")]


async def test_a_call_that_names_no_tool_or_does_not_fit_one_never_reaches_a_gate(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[str] = []
    heard = Heard()
    steps = [calls(call("nowhere"), call("edit", file="a.txt"), call("edit", path="a.txt")), say("done")]
    app = App(
        model=ScriptedModel(steps),
        extensions=[
            Extension("test", [Ledger().edit]),
            gate(lambda call, api: asked.append(call.tool), heard),
        ],
    )
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.codes == ["tool_unavailable", "invalid_arguments", ""]
    assert (asked, heard.codes) == (["edit"], [""])
