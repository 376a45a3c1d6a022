"""A task that is parked often, or long, or much spoken to: its run turns over and nothing is lost (spec §3.11)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from signals.parking import Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, Step, say
from tarry.testing import call as call_of
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.parking import ANSWER, HOUR, QUICK, YES, Answer, Call, Waits, start, waiting_app
from tests.support.shell import succeeds
from tests.support.stage import stage
from tests.support.waiting import eventually

NOW = timedelta(0)
DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)
OFTEN = QUICK.model_copy(update={"turnover_events": 60})


def scripted(waits: Waits, *steps: Step) -> App:
    return App(model=ScriptedModel(list(steps)), extensions=[Extension("test", [waits.tool], [ANSWER])])


async def test_call_that_never_waits_long_turns_over_and_keeps_all_it_has(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    polls = 60
    seen: list[tuple[int, str]] = []

    @tool
    def polling(api: ToolApi) -> Sleep | str:
        number = api.checkpoint or 0
        began = api.memo_sync("began", number)
        seen.append((number, str(began)))
        return Sleep(until=NOW, checkpoint=number + 1) if number < polls else "over"

    async with stage(lowered_server, waiting_app(polling), tmp_path) as on:
        call = await start(on, polling, OFTEN)
        outcome = await call.ends()
        runs = await on.client.count_workflows(f'WorkflowId = "{call.id}"')

    assert outcome.text == "over"
    assert seen == [(number, "0") for number in range(polls + 1)]
    assert runs.count > 5


async def test_turn_of_the_run_keeps_deadline_values_marks_memos_receipts_and_first_start(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    kept: list[object] = []

    @tool
    def waits(api: ToolApi) -> Sleep | str:
        if api.wake is None:
            api.memo_sync("build", 7)
            return Sleep(signals=[ANSWER.key("expires")], until=NOW, checkpoint="first")
        if api.checkpoint == "first":
            keys = [ANSWER.key("done"), ANSWER.key("other")]
            return Sleep(signals=keys, until=HOUR, checkpoint={"step": 2}, ask="Go on?")
        kept.extend([api.memo_sync("build", 8), api.checkpoint, api.read_signal_sync(ANSWER, "expires")])
        kept.append(api.read_signal_sync(ANSWER, "early 0"))
        return str(api.wake)

    async with stage(lowered_server, waiting_app(waits), tmp_path) as on:
        call = await start(on, waits, OFTEN)
        before = await call.parked(intent=2)
        for number in range(30):
            await call.update(f"early {number}", {"text": str(number)}, delivery_id=f"d{number}")

        async def runs() -> int:
            return len(await call.runs())

        await eventually(runs, lambda count: count > 1)
        after = await call.view()
        repeats = [await call.update("early 3", YES, delivery_id="d3"), await call.update("early 3", YES)]
        expired = await call.update("expires", YES)
        await call.update("done", YES)
        outcome = await call.ends()
        first = (await call.runs())[0][0].event_time.ToDatetime()
        closed = (await call.events())[-1].event_time.ToDatetime()

    assert after.model_dump(exclude={"receipts"}) == before.model_dump(exclude={"receipts"})
    assert [receipt.delivery_id for receipt in after.receipts] == [f"d{number}" for number in range(30)]
    assert [told.answer for told in repeats] == ["delivered", "duplicate"]
    assert expired.answer == "closed"
    assert outcome.text == "signal test.answer/done"
    early = kept.pop()
    assert isinstance(early, Received)
    assert (early.value, kept) == (Answer(text="0"), [7, {"step": 2}, Expired()])
    assert abs(outcome.facts.duration_ms - (closed - first) / timedelta(milliseconds=1)) < 1_000


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_stop_by_id_reaches_the_run_that_a_call_has_turned_over_to(
    lowered_server: EmbeddedServer, tmp_path: Path, how: str
) -> None:
    waits = Waits(DONE)
    app = App(
        model=ScriptedModel([call_of("waits"), say("on")]), extensions=[Extension("test", [waits.tool], [ANSWER])]
    )
    async with stage(lowered_server, app, tmp_path, turnover_events=20) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await waits.ran(1)
        call = Call(on.client, waits.task_ids[0])
        await call.parked()
        for number in range(15):
            await call.update(f"early {number}", YES)

        async def runs() -> int:
            return len(await call.runs())

        await eventually(runs, lambda count: count > 1)
        await succeeds(lowered_server, "workflow", how, "--workflow-id", call.id)
        answer = await answer_to(conversation, submission)

    assert (answer.end, answer.text, answer.codes) == ("done", "on", ["aborted"])


async def test_stop_of_the_conversation_reaches_a_call_that_has_turned_over(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE)
    app = App(
        model=ScriptedModel([call_of("waits"), say("on")]), extensions=[Extension("test", [waits.tool], [ANSWER])]
    )
    async with stage(lowered_server, app, tmp_path, turnover_events=20) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await waits.ran(1)
        call = Call(on.client, waits.task_ids[0])
        await call.parked()
        for number in range(15):
            await call.update(f"early {number}", YES)
        await conversation.abort()
        answer = await answer_to(conversation, submission)
        afterwards = await ask(conversation, "and now?")

    assert (answer.end, answer.codes) == ("unanswered aborted", ["aborted"])
    assert (afterwards.end, afterwards.text) == ("done", "on")


async def test_old_callback_does_not_reach_a_new_conversation_under_the_same_id(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE)
    app = scripted(waits, call_of("waits"), say("woken"))
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation("again")
        submission = await conversation.submit("go")
        await waits.ran(1)
        await Call(on.client, waits.task_ids[0]).parked()
        await on.harness.signal(waits.task_ids[0], ANSWER, "done", Answer(text="yes"))
        assert (await answer_to(conversation, submission)).text == "woken"
        await on.client.get_workflow_handle("again").terminate()
        renewed = await on.harness.conversation("again").submit("go")
        await waits.ran(3)
        new = Call(on.client, waits.task_ids[2])
        await new.parked()
        late = await on.harness.signal(waits.task_ids[0], ANSWER, "done", Answer(text="late"))
        unknown = await on.harness.signal("nobody~0/g1/t1.0", ANSWER, "done", Answer(text="x"))
        still = await new.view()
        await new.update("done", YES)
        answer = await answer_to(conversation, renewed)

    assert (late.answer, unknown.answer) == ("closed", "not_found")
    assert (still.state, still.receipts) == ("sleeping", ())
    assert answer.text == "woken"
