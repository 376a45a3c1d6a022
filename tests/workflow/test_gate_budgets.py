"""What gates cost, counted in histories (spec §5.7): a gated call that waits once against one that has no gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from signals.parking import Sleep
from tarry.embedded import EmbeddedServer
from tarry.hooks import Gate, HookApi, HookCall
from tests.support.gating import Gated, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, HOUR, YES, counts, names
from tests.support.stage import stage
from tests.support.waiting import eventually

WAITING = 27
"""The most events that a call costs more when it waits once for a value or a deadline.

Two passes and the registry's word on the value are an activity each, six events with the task that it ends in. Local
ones would be one event each, and are not safe: one that meets a query in its workflow task replays in another order.
"""


def waits(call: HookCall, api: HookApi) -> Gate:
    if api.read_signal_sync(ANSWER, "go") is not None:
        return None
    return Sleep(signals=[ANSWER.key("go")], until=HOUR)


def passes(call: HookCall, api: HookApi) -> Gate:
    return None


async def parked(call: Gated) -> None:
    """Return when it is parked, without asking it: a query may cost a workflow task."""
    await eventually(call.events, lambda events: "TIMER_STARTED" in names(events))


@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize("gates", [1, 3])
async def test_a_call_that_waits_once_at_a_gate_costs_little_however_many_gates_there_are(
    server: EmbeddedServer, tmp_path: Path, io: bool, gates: int
) -> None:
    others = [gate(passes, name=f"gate{number}") for number in range(1, gates)]
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit), tmp_path) as on:
        plain = await start_gated(on, "edit", path="a.txt")
        await plain.ends()
        base = await plain.history()
    async with stage(server, gated_app(ledger.edit, gate(waits, io=io), *others), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await parked(call)
        await call.handle.signal(ANSWER.name, {"key": "go", "value": YES})
        await call.ends()
        history = await call.history()

    kinds = counts(history)
    assert kinds["ACTIVITY_TASK_COMPLETED"] - 2 == 2, "one activity a pass, besides the tool and the verdict"
    assert len(history) - len(base) <= WAITING, names(history)
