"""Gates: what hooks may say before a call's intent, and what becomes of every answer (spec §5.1, §5.2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from signals.parking import Sleep, Wait
from signals.tokens import Signal
from tarry.api import ToolApi
from tarry.app import Extension
from tarry.core.gates import arguments_digest
from tarry.embedded import EmbeddedServer
from tarry.hooks import Block, Gate, HookApi, HookCall, Replace
from tarry.tools import tool
from tests.support.gating import Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, YES, Answer, counts, names, wedges
from tests.support.stage import idle_stage, stage
from tests.support.waiting import PATIENCE, eventually

KEY = ANSWER.key("go")


def raises(call: HookCall, api: HookApi) -> Gate:
    raise ValueError("no \ud800 idea")


def exits(call: HookCall, api: HookApi) -> Gate:
    raise SystemExit(3)


def hangs(call: HookCall, api: HookApi) -> Gate:
    threading.Event().wait()
    return None


async def never_settles(call: HookCall, api: HookApi) -> Gate:
    await asyncio.get_running_loop().create_future()
    return None


def deep(call: HookCall, api: HookApi) -> Gate:
    value: Any = None
    for _ in range(150):
        value = [value]
    api.memo_sync("deep", value)
    return None


def answers(answer: Any) -> Callable[[HookCall, HookApi], Any]:
    return lambda call, api: answer


def remembers(key: Any, value: Any) -> Callable[[HookCall, HookApi], Gate]:
    def hook(call: HookCall, api: HookApi) -> Gate:
        api.memo_sync(key, value)
        return None

    return hook


BLOCKING: dict[str, tuple[Any, str]] = {
    "raises": (raises, "hook gate failed with ValueError: no \ufffd idea"),
    "exits": (exits, "hook gate failed with SystemExit: 3"),
    "blocks its thread": (hangs, "hook gate gave no answer in time"),
    "never settles": (never_settles, "hook gate gave no answer in time"),
    "answers nonsense": (answers(True), "hook gate returned a bool"),
    "waits for a task": (answers(Wait(["x"])), "hook gate returned a Wait"),
    "no arguments": (answers(Replace([1])), "hook gate gave arguments that are no object"),  # type: ignore[arg-type]
    "unencodable arguments": (answers(Replace({"path": object()})), "hook gate gave arguments that are no JSON"),
    "deep arguments": (answers(Replace({"path": [[[]]] * 2, "x": {}})), "path"),
    "huge arguments": (answers(Replace({"path": "x" * 300_000})), "hook gate gave arguments of 300011 bytes"),
    "memo of nothing": (remembers("", 1), "a key has 1 to 8192 bytes"),
    "memo without Unicode": (remembers("\ud800", 1), "a key must be valid Unicode"),
    "memo too deep": (deep, "JSON data is nested deeper than 100 levels"),
    "memo too large": (remembers("m", "x" * 600_000), "hook gate failed with TaskFull"),
    "block of nothing": (answers(Block(None, code="why", by=3)), "None"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BLOCKING)
async def test_a_gate_that_fails_blocks_the_call_with_its_text(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    hook, text = BLOCKING[name]
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, gate(hook)), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        outcome = await call.ends()
        history = await call.history()

    expected = "invalid_arguments" if name == "deep arguments" else "blocked"
    assert (outcome.code, outcome.is_error) == (expected, True)
    assert text in outcome.text
    assert ledger.runs == []
    assert wedges(history) == []


IMPOSSIBLE = {
    "nothing": (Sleep(), "a sleep needs until, signals, or both"),
    "a naive time": (Sleep(until=datetime(2030, 1, 1)), "without a time zone"),  # noqa: DTZ001
    "an unknown signal": (Sleep(signals=[Signal("no.such", 1, Answer).key("k")]), "no signal is named 'no.such'"),
    "no keys": (Sleep(signals=["go"]), "made by a token's key()"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_a_gate_that_asks_for_an_impossible_wait_is_an_error(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    sleep, text = IMPOSSIBLE[name]
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, gate(answers(sleep))), tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="a.txt")).ends()

    assert (outcome.code, text in outcome.text, "hook gate" in outcome.text) == ("invalid_park", True, True)
    assert ledger.runs == []


async def test_a_gate_that_sleeps_on_a_key_that_was_used_up_is_an_error(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, gate(answers(Sleep(signals=[KEY])))), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.asks()
        await call.update(KEY.key, YES, signal=ANSWER.name)
        outcome = await call.ends()

    assert (outcome.code, "has woken this task before" in outcome.text) == ("invalid_park", True)


async def test_every_wake_asks_all_gates_from_the_first_and_after_intent_none(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[str] = []

    def named(name: str) -> Extension:
        def hook(call: HookCall, api: HookApi) -> Gate:
            asked.append(name)
            return None if api.read_signal_sync(ANSWER, name) else Sleep(signals=[ANSWER.key(name)])

        return gate(hook, name=name)

    @tool
    def parks(api: ToolApi) -> Sleep | str:
        """Park once, and tell why it was woken."""
        asked.append("run")
        return Sleep(signals=[KEY]) if api.wake is None else str(api.wake)

    async with stage(server, gated_app(parks, named("first"), named("second")), tmp_path) as on:
        call = await start_gated(on, "parks")
        for name in ("first", "second"):
            await call.waits_for(ANSWER.key(name))
            await call.update(name, YES, signal=ANSWER.name)
        await call.parked()
        await call.update(KEY.key, YES, signal=ANSWER.name)
        outcome = await call.ends()

    assert asked == ["first", "first", "second", "first", "second", "run", "run"]
    assert outcome.text == "signal test.answer/go"


async def test_the_first_block_ends_the_chain(server: EmbeddedServer, tmp_path: Path) -> None:
    asked: list[str] = []
    first = gate(answers(Block("closed for the day")), name="first")
    second = gate(lambda call, api: asked.append(call.tool), name="second")
    async with stage(server, gated_app(Ledger().edit, first, second), tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="a.txt")).ends()

    assert (outcome.code, asked) == ("blocked", [])
    assert outcome.facts.diagnostics == ("[error] Tool edit was blocked and not run. closed for the day",)


def rewrites(call: HookCall, api: HookApi) -> Gate:
    return Replace({"path": f"/home/{call.arguments['path']}"}) if call.arguments["path"][0] != "/" else None


async def test_replaced_arguments_are_what_later_gates_see_and_what_runs_defaults_included(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, seen = Ledger(), list[HookCall]()
    watcher = gate(lambda call, api: seen.append(call), name="watcher")
    async with stage(server, gated_app(ledger.edit, gate(rewrites), watcher), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        outcome = await call.ends()
        view = await call.view()

    expected = {"path": "/home/a.txt", "mode": "w"}
    assert [seen[0].arguments, view.arguments, *ledger.runs] == [expected] * 3
    assert seen[0].digest == arguments_digest("edit", expected)
    assert outcome.code == ""


async def test_arguments_that_a_hook_changes_in_place_stay_as_they_are(server: EmbeddedServer, tmp_path: Path) -> None:
    runs: list[list[str]] = []

    @tool
    def remove(paths: list[str]) -> str:
        """Remove files."""
        runs.append(paths)
        return "removed"

    def sneaks(call: HookCall, api: HookApi) -> None:
        call.arguments["paths"].append("/etc/shadow")

    async with stage(server, gated_app(remove, gate(sneaks)), tmp_path) as on:
        await (await start_gated(on, "remove", paths=["a.txt"])).ends()

    assert runs == [["a.txt"]]


@pytest.mark.parametrize("repaired", [True, False])
async def test_invalid_replaced_arguments_are_an_error_unless_a_later_hook_repairs_them(
    server: EmbeddedServer, tmp_path: Path, repaired: bool
) -> None:
    ledger = Ledger()
    breaks = gate(answers(Replace({"file": "a.txt"})), name="breaks")
    repairs = gate(answers(Replace({"path": "b.txt"}) if repaired else None), name="repairs")
    async with stage(server, gated_app(ledger.edit, breaks, repairs), tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="a.txt")).ends()

    assert (outcome.code, ledger.runs) == (
        ("", [{"path": "b.txt", "mode": "w"}]) if repaired else ("invalid_arguments", [])
    )


async def test_memos_of_hooks_are_kept_over_passes_and_shared_with_the_tool(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held: list[Any] = []

    def hook(call: HookCall, api: HookApi) -> Gate:
        kept = api.memo_sync("passes", [len(held)])
        held.append(list(kept))
        kept.append("changed in place")
        return None if api.read_signal_sync(ANSWER, KEY.key) else Sleep(signals=[KEY])

    @tool
    def shares(api: ToolApi) -> str:
        """Tell what the hooks remembered."""
        return str(api.memo_sync("passes", "the tool's"))

    async with stage(server, gated_app(shares, gate(hook)), tmp_path) as on:
        call = await start_gated(on, "shares")
        await call.asks()
        await call.update(KEY.key, YES, signal=ANSWER.name)
        outcome = await call.ends()

    assert (held, outcome.text) == ([[0], [0]], "[0]")


async def test_remarks_of_the_last_pass_go_with_the_result(server: EmbeddedServer, tmp_path: Path) -> None:
    def hook(call: HookCall, api: HookApi) -> Gate:
        found = api.read_signal_sync(ANSWER, KEY.key)
        api.diagnostic(f"asked {'again' if found else 'first'}")
        return None if found else Sleep(signals=[KEY])

    async with stage(server, gated_app(Ledger().edit, gate(hook)), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.asks()
        await call.update(KEY.key, YES, signal=ANSWER.name)
        outcome = await call.ends()

    assert outcome.text == "edited a.txt\n<harness>\n[info] asked again\n</harness>"
    assert outcome.facts.diagnostics == ("[info] asked again",)


async def test_a_stop_ends_a_gate_that_does_io_at_once_and_the_tool_never_runs(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, asked = Ledger(), threading.Event()

    def io(call: HookCall, api: HookApi) -> Gate:
        asked.set()
        return hangs(call, api)

    async with stage(server, gated_app(ledger.edit, gate(io, io=True)), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await asyncio.to_thread(asked.wait)
        async with asyncio.timeout(PATIENCE):
            await call.handle.cancel()
            outcome = await call.ends()

    assert (outcome.code, "before it was started" in outcome.text, ledger.runs) == ("aborted", True, [])


async def test_hooks_see_the_time_of_the_server_not_of_their_host(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[datetime] = []
    async with stage(server, gated_app(Ledger().edit, gate(lambda call, api: seen.append(api.now()))), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.ends()
        history = await call.history()

    began = history[2].event_time.ToDatetime(tzinfo=UTC)
    told = history[names(history).index("ACTIVITY_TASK_COMPLETED")].event_time.ToDatetime(tzinfo=UTC)
    assert began <= seen[0] <= told


async def test_hooks_that_came_to_do_io_by_a_deploy_are_given_the_time_for_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    quick, slow = (gated_app(ledger.edit, gate(answers(None), io=io)) for io in (False, True))
    async with idle_stage(server, quick, tmp_path) as on, on.worker(slow):
        call = await start_gated(on, "edit", path="a.txt")
        outcome = await call.ends()
        kinds = counts(await call.history())

    assert (outcome.text, len(ledger.runs)) == ("edited a.txt", 1)
    assert kinds["ACTIVITY_TASK_COMPLETED"] == 2


async def test_a_pass_that_a_worker_gave_up_is_made_once_more_by_another(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, asked, go = Ledger(), list[str](), threading.Event()

    def holds(call: HookCall, api: HookApi) -> Gate:
        asked.append(api.memo_sync("who", f"pass {len(asked) + 1}"))
        return None if go.wait(20) else Block("never")

    async with idle_stage(server, gated_app(ledger.edit, gate(holds, io=True)), tmp_path, shutdown_grace=0) as on:
        async with on.worker():
            call = await start_gated(on, "edit", path="a.txt")
            await eventually(lambda: asyncio.sleep(0, asked))
        async with on.worker():
            await eventually(lambda: asyncio.sleep(0, len(asked) == 2))
            go.set()
            outcome = await call.ends()

    assert (asked, outcome.code, len(ledger.runs)) == (["pass 1", "pass 2"], "", 1)
