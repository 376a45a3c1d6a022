"""Deploys under calls that wait before their intent: the gates that are installed now decide (spec §5.3)."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from signals.parking import Sleep
from tarry.app import App
from tarry.core import task
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.hooks import Block, Gate, HookApi, HookCall
from tarry.tools import tool
from tests.support.gating import Gated, Heard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, HOUR, YES, Waits, start, waiting_app
from tests.support.stage import Stage, idle_stage, stage


def always(call: HookCall) -> bool:
    return True


async def parked_under(on: Stage, app: App) -> Gated:
    """A call that waits before its intent, since a worker of `app` asked its gates."""
    async with on.worker(app):
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
    return waiting


async def test_a_gate_that_was_removed_lets_the_others_decide(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    old, new = gated_app(ledger.edit, approvals(always)), gated_app(ledger.edit)
    async with idle_stage(server, old, tmp_path) as on:
        waiting = await parked_under(on, old)
        async with on.worker(new):
            await waiting.reask(new.registry.fingerprint)
            outcome = await waiting.ends()

    assert (outcome.code, len(ledger.runs)) == ("", 1)


async def test_an_answer_to_a_gate_that_was_removed_is_no_error(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    old = gated_app(ledger.edit, approvals(always))
    new = gated_app(ledger.edit, gate(lambda call, api: Block("not on Sundays"), name="new"))
    async with idle_stage(server, old, tmp_path) as on:
        waiting = await parked_under(on, old)
        async with on.worker(new):
            answer = await waiting.decide(allow=True)
            await waiting.reask(new.registry.fingerprint)
            outcome = await waiting.ends()

    assert answer == "invalid", "nobody declares that signal any more"
    assert (outcome.code, "not on Sundays" in outcome.text, ledger.runs) == ("blocked", True, [])


async def test_a_gate_that_was_added_is_asked_at_the_next_wake(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger, heard = Ledger(), Heard()
    old = gated_app(ledger.edit, approvals(always))
    added = gate(lambda call, api: Block("not on Sundays"), heard, name="added")
    new = gated_app(ledger.edit, approvals(always), added)
    async with idle_stage(server, old, tmp_path) as on:
        waiting = await parked_under(on, old)
        async with on.worker(new):
            await waiting.decide(allow=True)
            outcome = await waiting.ends()

    assert (outcome.code, "not on Sundays" in outcome.text, ledger.runs) == ("blocked", True, [])
    assert heard.codes == ["blocked"], "it hears of the result, though the call was made before it was there"


async def test_a_call_that_was_asked_under_the_current_registry_is_not_asked_anew(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = gated_app(Ledger().edit, approvals(always))
    async with stage(server, app, tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        before = await waiting.asks()
        await waiting.reask(app.registry.fingerprint)
        await waiting.handle.signal("tarry.reask", {"no": "fingerprint"})
        await waiting.update("x", {"allow": True})
        after = await waiting.view()

    assert after.since == before.since


async def test_a_change_during_a_pass_is_asked_about_as_soon_as_it_sleeps(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked, go = threading.Event(), threading.Event()
    passes: list[str] = []

    def slow(call: HookCall, api: HookApi) -> Gate:
        passes.append(call.tool)
        asked.set()
        go.wait(3)
        return Sleep(signals=[ANSWER.key("go")])

    async with stage(server, gated_app(Ledger().edit, gate(slow, io=True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await on.client.get_workflow_handle(waiting.id).describe()
        while not asked.is_set():
            await waiting.view()
        await waiting.reask("newer")
        go.set()
        await waiting.asks(lambda _: len(passes) == 2)

    assert len(passes) == 2


async def test_a_change_that_comes_with_the_deadline_takes_the_path_of_the_deadline(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    old = gated_app(ledger.edit, approvals(always, deadline=timedelta(seconds=2)))
    new = gated_app(ledger.edit, approvals(always, deadline=HOUR))
    async with idle_stage(server, old, tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            view = await waiting.asks()
        await waiting.reask("newer")
        assert view.until is not None
        assert view.since is not None
        await _passed(on, (view.until - view.since).total_seconds())
        async with on.worker(new):
            outcome = await waiting.ends()

    assert (outcome.code, ledger.runs) == ("expired", [])


async def _passed(on: Stage, seconds: float) -> None:
    """Return when the server's clock has gone on by so much: a timer of a workflow that needs no worker for it."""
    waits = Waits(Sleep(until=timedelta(seconds=seconds)))
    other = Stage(on.client, on.settings.model_copy(update={"task_queue": f"{on.settings.task_queue}-clock"}), on.app)
    async with other.worker(waiting_app(waits.tool)):
        await (await start(other, waits.tool)).ends()


async def test_a_tool_that_is_gone_is_unavailable_and_its_gates_are_not_asked(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "NOT_HERE_PAUSE", 0.0)
    ledger, heard, asked = Ledger(), Heard(), list[str]()

    def waits(call: HookCall, api: HookApi) -> Gate:
        asked.append(call.tool)
        return None if api.read_signal_sync(ANSWER, "go") else Sleep(signals=[ANSWER.key("go")])

    old = gated_app(ledger.edit, gate(waits, heard))
    new = gated_app(Waits().tool, gate(waits, heard))
    async with idle_stage(server, old, tmp_path) as on:
        waiting = await parked_under(on, old)
        async with on.worker(new):
            await waiting.update("go", YES, signal=ANSWER.name)
            outcome = await waiting.ends()
            view = await waiting.view()

    assert (outcome.code, "was not run" in outcome.text) == ("tool_unavailable", True)
    assert (asked, ledger.runs) == (["edit"], [])
    assert (heard.codes, heard.ran) == (["tool_unavailable"], [False])
    assert view.arguments == {"path": "a.txt", "mode": "w"}


async def test_arguments_that_a_new_declaration_refuses_are_told_and_no_gate_is_asked(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool(name="edit")
    def edit_stricter(path: str, reviewer: str, mode: str = "w") -> str:
        """Edit a file."""
        return "edited"

    old = gated_app(Ledger().edit, approvals(always))
    async with idle_stage(server, old, tmp_path) as on:
        waiting = await parked_under(on, old)
        async with on.worker(gated_app(edit_stricter, approvals(always))):
            await waiting.decide(allow=True)
            outcome = await waiting.ends()

    assert (outcome.code, "reviewer" in outcome.text) == ("invalid_arguments", True)


async def test_a_change_after_intent_asks_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")]))
    asked: list[str] = []
    app = gated_app(waits.tool, gate(lambda call, api: asked.append(call.tool)))
    async with stage(server, app, tmp_path) as on:
        call = await start_gated(on, waits.tool.name)
        before = await call.parked()
        await call.reask("newer")
        await call.update("done", YES, signal=ANSWER.name)
        outcome = await call.ends()

    assert (asked, before.state, outcome.code) == (["waits"], "sleeping", "")
