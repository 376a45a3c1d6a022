"""What comes for a call that waits at its gates is judged by the pass that it wakes to (spec §5.7).

A `Guard` notes each pass with the keys that held a value in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.hooks.gates import GateActivities
from tarry.core.gates import ASK_GATES, Judged, Pass, PassInput
from tarry.core.protocol import TOOL_RUN
from tarry.core.waiting import JUDGE
from tarry.embedded import EmbeddedServer
from tests.support.gating import Guard, Ledger, gate, gated_app, start_gated
from tests.support.guarded import Ask, asks_only, end_of, parked
from tests.support.parking import ANSWER, YES, workflows_only
from tests.support.stage import idle_stage

BAD = {"text": 5}
GO, ON = ANSWER.key("go"), ANSWER.key("on")


@pytest.mark.parametrize("by_update", [False, True])
async def test_one_activity_judges_the_value_and_makes_the_pass_that_it_wakes_to(
    server: EmbeddedServer, tmp_path: Path, by_update: bool
) -> None:
    guard = Guard("go")
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        if by_update:
            assert (await scene.call.update("go", YES, signal=ANSWER.name)).answer == "delivered"
        else:
            await scene.call.value("go")
        end = await end_of(scene.call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert (guard.passes, len(scene.ledger.runs)) == (["", "go"], 1)


async def test_value_that_is_refused_asks_nobody_and_the_next_one_wakes(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go")
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.call.value("go", value=BAD)
        assert await scene.call.answers(1) == ["invalid"]
        assert guard.passes == [""]
        await scene.call.value("go")
        end = await end_of(scene.call)

    assert end == ("", ["invalid", "delivered"], [ASK_GATES, ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go"]


async def test_all_that_comes_at_once_is_judged_by_one_pass_in_order(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", "on", looks_at="early")
    async with parked(server, tmp_path, guard) as scene:
        await scene.call.value("go", value=BAD)
        await scene.call.value("early")
        await scene.call.value("go")
        await scene.call.value("go", value={"text": "late"})
        await scene.call.handle.signal("no.such", {"key": "k", "value": 1})
        await scene.call.handle.signal(ANSWER.name, "no envelope")
        await scene.call.value("on")
        async with scene.on.worker():
            end = await end_of(scene.call)

    told = ["invalid", "delivered", "delivered", "duplicate", "invalid", "invalid", "delivered"]
    assert end == ("", told, [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go on early"]


async def test_value_that_nobody_awaits_asks_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", looks_at="early")
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.call.value("early")
        assert await scene.call.answers(1) == ["delivered"]
        assert guard.passes == [""]
        await scene.call.value("go")
        end = await end_of(scene.call)

    assert end == ("", ["delivered", "delivered"], [ASK_GATES, JUDGE, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go early"]


async def test_the_pass_may_wait_again_and_the_next_value_is_judged_by_the_next_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", "on")
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.call.value("go")
        await scene.call.waits_for(ON)
        await scene.call.value("on")
        end = await end_of(scene.call)

    assert end == ("", ["delivered", "delivered"], [ASK_GATES, ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go", "go on"]


async def test_an_id_that_was_refused_stays_refused_and_its_value_is_shown_to_no_gate(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go")
    async with parked(server, tmp_path, guard) as scene:
        await scene.call.value("go", value=BAD, delivery_id="d")
        await scene.call.value("go", delivery_id="d")
        async with scene.on.worker():
            assert await scene.call.answers(1) == ["invalid"]
            await scene.sees("ACTIVITY_TASK_COMPLETED", 2)
            assert guard.passes == [""]
            await scene.call.value("go", delivery_id="e")
            end = await end_of(scene.call)

    assert end[:2] == ("", ["invalid", "delivered"])
    assert guard.passes == ["", "go"]


def older(gates: GateActivities) -> Callable[..., Any]:
    """As before passes judged anything."""

    @activity.defn(name=ASK_GATES)
    async def ask(input: PassInput) -> Pass | Judged:
        return await gates.ask(input.model_copy(update={"arrived": None}))

    return ask


def failing(gates: GateActivities) -> Callable[..., Any]:
    """It never comes to its end where a value has come."""

    @activity.defn(name=ASK_GATES)
    async def ask(input: PassInput) -> Pass | Judged:
        if input.arrived is not None:
            raise ApplicationError("out of memory", non_retryable=True)
        return await gates.ask(input)

    return ask


def answering(answer: Any) -> Ask:
    """Somebody completes it by hand, where a value has come."""

    def made(gates: GateActivities) -> Callable[..., Any]:
        @activity.defn(name=ASK_GATES)
        async def ask(input: PassInput) -> Any:
            return await gates.ask(input) if input.arrived is None else answer

        return ask

    return made


WITHOUT_VERDICTS: dict[str, tuple[Ask, list[str]]] = {
    "an older worker": (older, ["", "", "go"]),
    "it fails": (failing, ["", "go"]),
    "nothing": (answering(None), ["", "go"]),
    "nonsense": (answering({"decision": "maybe", "verdicts": 5}), ["", "go"]),
    "too few verdicts": (answering({"verdicts": [], "found": {"decision": "run"}}), ["", "go"]),
    "a pass alone": (answering({"decision": "run", "memos": {"m": 1}}), ["", "go"]),
    "a pass with other keys": (answering({"verdicts": [{}], "found": {"decision": "run"}, "keys": "x"}), ["", "go"]),
    "a pass without its tool": (answering({"verdicts": [{}], "found": {"decision": "not_here"}}), ["", "go"]),
    "no pass": (answering({"verdicts": [{}]}), ["", "go"]),
}


JUDGED_ALONE = ("an older worker", "it fails", "nothing", "nonsense", "too few verdicts", "a pass alone")


@pytest.mark.parametrize("name", WITHOUT_VERDICTS)
async def test_what_is_no_answer_to_both_questions_is_asked_again_one_by_one(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    ask, passes = WITHOUT_VERDICTS[name]
    guard, ledger = Guard("go"), Ledger()
    app = gated_app(ledger.edit, gate(guard, io=True))
    async with idle_stage(server, app, tmp_path) as on, workflows_only(on), asks_only(on, ask):
        call = await start_gated(on, "edit", path="a.txt")
        await call.waits_for(GO)
        await call.value("go")
        end = await end_of(call)

    assert end[:2] == ("", ["delivered"])
    assert (guard.passes, len(ledger.runs), JUDGE in end[2]) == (passes, 1, name in JUDGED_ALONE)


@pytest.mark.parametrize("memos", [{"": 1}, {"m": "x" * 600_000}, {"m": 1, "n" * 9_000: 2}])
async def test_memos_that_the_call_cannot_carry_cost_the_pass_and_not_the_value(
    server: EmbeddedServer, tmp_path: Path, memos: dict[str, Any]
) -> None:
    guard, ledger = Guard("go"), Ledger()
    app = gated_app(ledger.edit, gate(guard, io=True))
    ask = answering({"verdicts": [{}], "found": {"decision": "run", "memos": memos}})
    async with idle_stage(server, app, tmp_path) as on, workflows_only(on), asks_only(on, ask):
        call = await start_gated(on, "edit", path="a.txt")
        await call.waits_for(GO)
        await call.value("go")
        outcome = await call.ends()

    assert (outcome.code, guard.passes, len(ledger.runs)) == ("", ["", "go"], 1)


async def test_a_pass_that_its_worker_gave_up_is_made_once_more_and_the_value_taken_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard, shutdown_grace=0) as scene:
        async with scene.on.worker():
            await scene.in_the_pass()
        async with scene.on.worker():
            end = await end_of(scene.call)
        guard.go.set()

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert (guard.passes, len(scene.ledger.runs)) == (["", "go", "go"], 1)
