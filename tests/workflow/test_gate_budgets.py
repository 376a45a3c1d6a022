"""What gates cost, counted in histories (spec §5.7): a gated call that waits once against one that has no gates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from signals.parking import Sleep
from tarry.embedded import EmbeddedServer
from tarry.hooks import Gate, HookApi, HookCall
from tests.support.gating import Gated, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, HOUR, YES, counts, names
from tests.support.stage import stage
from tests.support.waiting import eventually

Road = Callable[[Gated], Awaitable[None]]


async def by_signal(call: Gated) -> None:
    """Leave the value with the server."""
    await call.handle.signal(ANSWER.name, {"key": "go", "value": YES})


async def by_update(call: Gated) -> None:
    """Deliver it, and be told."""
    assert (await call.update("go", YES, signal=ANSWER.name)).answer == "delivered"


WAITING: dict[Road, int] = {by_signal: 21, by_update: 22}
"""The most events that a call costs more when it waits once, with a deadline, for a value that comes by that road.

Each of its two passes is an activity, six events with the task that it ends in; the one to which the value wakes it
judges the value, too. The park and its wake cost five, a plain signal one, an update two, and the task that takes it
three. Hooks that do IO cost no more than quick ones: a local activity for these would save some, and is not safe. One
that meets a query in its workflow task replays in another order than it ran (temporalio 1.35).
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


@pytest.mark.parametrize("deliver", WAITING)
@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize("gates", [1, 3])
async def test_a_call_that_waits_once_at_a_gate_costs_little_however_many_gates_there_are(
    server: EmbeddedServer, tmp_path: Path, deliver: Road, io: bool, gates: int
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
        await deliver(call)
        await call.ends()
        history = await call.history()

    kinds = counts(history)
    assert kinds["ACTIVITY_TASK_COMPLETED"] - 1 == 2, "one activity a pass, besides the tool"
    assert len(history) - len(base) <= WAITING[deliver], names(history)
