"""What lists and the Web UI say of parked work, with no worker up, over a turn of its run, and after (spec §9)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from signals.parking import Ask, Sleep
from tarry.attributes import DEADLINE, STATE, WAITING_FOR
from tarry.core.waiting import PARKED_MEMO, ParkedNote
from tarry.core.wake_command import wake_command
from tarry.embedded import EmbeddedServer
from tests.support.parking import ANSWER, HOUR, QUICK, YES, Call, Waits, start, waiting_app
from tests.support.shell import succeeds
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

ASKED = Sleep(
    signals=[ANSWER.key("done"), ANSWER.key("a\nb"), ANSWER.key("k" * 200)],
    until=HOUR,
    ask=Ask(text="Deploy **now**?", for_whom="ops"),
)


async def shown(on: Stage, call: Call) -> tuple[str | None, list[str], datetime | None]:
    """State, keys and deadline, as lists know them."""
    found = [one async for one in on.client.list_workflows(f'WorkflowId = "{call.id}" AND ExecutionStatus = "Running"')]
    attributes = found[0].typed_search_attributes if found else (await call.handle.describe()).typed_search_attributes
    return attributes.get(STATE), list(attributes.get(WAITING_FOR) or []), attributes.get(DEADLINE)


async def noted(call: Call) -> ParkedNote:
    """The note in its memo."""
    return ParkedNote.model_validate(await (await call.handle.describe()).memo_value(PARKED_MEMO))


async def details(server: EmbeddedServer, call: Call) -> str:
    """What the Web UI shows as current details."""
    text = await succeeds(server, "workflow", "metadata", "--workflow-id", call.id, "-o", "json")
    found: list[dict[str, Any]] = json.loads(text)["queryResult"]
    return str(found[0].get("currentDetails", ""))


async def test_parked_call_is_listed_with_state_keys_deadline_and_question_while_no_worker_is_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(ASKED)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            view = await call.parked()
        state, keys, deadline = await eventually(lambda: shown(on, call), lambda found: found[0] == "sleeping")
        note = await noted(call)

    assert state == "sleeping"
    assert keys[0] == "test.answer/done"
    assert [key.startswith("test.answer/#") for key in keys[1:]] == [True, True]
    assert view.until is not None
    assert deadline is not None
    assert abs(deadline - view.until) < timedelta(milliseconds=1)
    assert list(note.keys) == keys
    assert (note.since, note.until, note.text, note.for_whom, note.tool, note.arguments) == (
        *(view.since, view.until, "Deploy **now**?", "ops", "waits", "{}"),
    )


async def test_web_ui_says_what_a_parked_call_waits_for_and_the_command_that_wakes_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(ASKED, holds=lambda seen: bool(seen.wake))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        parked = await details(server, call)
        await call.update("done", YES)
        await waits.ran(2)
        state, keys, deadline = await eventually(lambda: shown(on, call), lambda found: found[0] == "running")
        woken = await details(server, call)
        waits.go.set()
        await call.ends()

    assert "**Waiting for ops** since" in parked
    assert "> Deploy **now**?" in parked
    assert wake_command(call.id, ANSWER.key("done"), {}) in parked
    assert (woken, state, keys, deadline) == ("", "running", [], None)


async def test_all_that_is_shown_stays_over_a_turn_of_the_run(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(ASKED)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool, QUICK.model_copy(update={"turnover_events": 20}))
        view = await call.parked()
        before = (await eventually(lambda: shown(on, call), lambda found: found[0] == "sleeping"), await noted(call))
        told = await details(server, call)
        for number in range(20):
            await call.update(f"early {number}", YES)

        async def count() -> int:
            return len(await call.runs())

        await eventually(count, lambda runs: runs > 1)
        after = (await shown(on, call), await noted(call))
        assert await details(server, call) == told
        later = await call.view()
        await call.update("done", YES)
        await call.ends()

    assert after == before
    assert (later.since, later.until, later.keys, later.ask) == (view.since, view.until, view.keys, view.ask)
    assert len(later.receipts) == 20


async def test_wait_without_a_deadline_is_listed_as_such_and_a_cancel_ends_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")]))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            view = await call.parked()
        async with on.worker():
            listed = await eventually(lambda: shown(on, call), lambda found: found[0] == "sleeping")
            note, said = await noted(call), await details(server, call)
            await call.handle.cancel()
            outcome = await call.ends()

    assert listed == ("sleeping", ["test.answer/done"], None)
    assert (note.since, note.until, view.until) == (view.since, None, None)
    assert "without a deadline" in said
    assert outcome.code == "aborted"
