"""What gates let pass is what runs, in whatever order they are installed (spec §5.1, §5.2)."""

from __future__ import annotations

from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.hooks import BeforeTool, HookApi, HookCall, Replace
from tests.support.gating import Ledger, gate, gated_app, start_gated
from tests.support.stage import stage


async def test_arguments_that_a_later_gate_makes_are_approved_too_before_they_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    def moved(call: HookCall, api: HookApi) -> Replace:
        return Replace({**call.arguments, "path": "moved"})

    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True), gate(moved)), tmp_path) as on:
        call = await start_gated(on, "edit", path="asked")
        asked = (await call.asks(lambda view: bool(view.keys))).keys[0]
        await call.decide(True)
        again = await call.asks(lambda view: bool(view.keys) and asked not in view.keys)

        assert ledger.runs == []
        assert again.ask is not None
        assert '"path":"moved"' in again.ask.text
        await call.decide(True)
        await call.ends()

    assert ledger.runs == [{"path": "moved", "mode": "w"}]


async def test_gates_that_never_agree_on_arguments_block_the_call(server: EmbeddedServer, tmp_path: Path) -> None:
    def flips(to: str, sees: str) -> BeforeTool:
        def before(call: HookCall, api: HookApi) -> Replace | None:
            return Replace({**call.arguments, "path": to}) if call.arguments["path"] == sees else None

        return before

    ledger = Ledger()
    one, other = gate(flips("b", "a"), name="one"), gate(flips("a", "b"), name="other")
    async with stage(server, gated_app(ledger.edit, gate(lambda call, api: None), one, other), tmp_path) as on:
        agreed = await (await start_gated(on, "edit", path="c")).ends()
        fought = await (await start_gated(on, "edit", path="b")).ends()

    assert (agreed.code, fought.code) == ("", "blocked")
    assert "its hooks never agreed on its arguments" in fought.text
    assert [run["path"] for run in ledger.runs] == ["c"]
