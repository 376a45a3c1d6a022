"""Resets after which the model does something else: what earlier timelines went on with is stopped (spec §1.7)."""

from __future__ import annotations

import threading
from pathlib import Path

from signals.parking import Sleep
from tarry.app import App, Extension
from tarry.cli.turns import newest_turns
from tarry.client import Submission
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tests.support.held import HeldTool
from tests.support.parking import ANSWER, HOUR, YES, Call, Waits
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, stage
from tests.support.waiting import eventually

ONCE = Sleep(signals=[ANSWER.key("go")], until=HOUR)


class Desk:
    """An agent that finishes something, then waits; when `changed`, it has nothing to wait for any more."""

    def __init__(self) -> None:
        self.changed = self.asked_again = False
        self.delay = 0.0
        self.cleaned: list[str] = []
        self.finish = HeldTool(name="finish")
        self.finish.go.set()
        self.waits = Waits(ONCE, cancel=self._clean_up)
        model = ScriptedModel([call("finish", what="a"), self._second, say("done")])
        tools = [self.finish.tool, self.waits.tool]
        self.app = App(model=model, extensions=[Extension("desk", tools, [ANSWER])])

    def _second(self, request: ModelRequest) -> Reply:
        if not self.changed:
            return calls(call("waits"))
        self.asked_again = True
        return say("no need", delay=self.delay)

    async def was_asked_again(self) -> None:
        """Return when the model was asked for the second turn once more."""

        async def is_so() -> bool:
            return self.asked_again

        await eventually(is_so)

    def _clean_up(self) -> None:
        self.cleaned.append("taken back")

    async def asked(self, on: Stage) -> tuple[Submission, Call]:
        """A run whose second turn waits."""
        submission = await on.harness.conversation().submit("go")
        await self.waits.ran(1)
        waiting = Call(on.client, self.waits.task_ids[0])
        await waiting.parked()
        return submission, waiting


async def reset_to_turn(server: EmbeddedServer, on: Stage, run_id: str, turn: int) -> None:
    [event_id] = [found.event_id for found in await newest_turns(on.client, run_id) if found.turn == turn]
    where = ("--workflow-id", run_id, "--event-id", str(event_id), "--reason", "drill")
    await succeeds(server, "workflow", "reset", *where)


def run_of(call: Call) -> str:
    return call.id.rpartition("/")[0]


async def test_call_that_the_model_makes_no_more_is_stopped_and_cleaned_up_after(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    desk = Desk()
    async with stage(server, desk.app, tmp_path, heartbeat_timeout=1.0) as on:
        submission, waiting = await desk.asked(on)
        desk.changed = True

        await reset_to_turn(server, on, run_of(waiting), 2)

        assert (await submission.wait()).answer_text == "no need"
        assert (await waiting.ends()).code == "aborted"
        assert (desk.cleaned, desk.finish.ledger) == (["taken back"], ["a"])


async def test_calls_of_later_turns_are_left_alone_as_long_as_the_model_does_the_same(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    desk = Desk()
    async with stage(server, desk.app, tmp_path, heartbeat_timeout=1.0) as on:
        submission, waiting = await desk.asked(on)

        await reset_to_turn(server, on, run_of(waiting), 1)
        await waiting.update("go", YES)

        assert (await submission.wait()).answer_text == "done"
        assert (await waiting.ends()).code == ""
        assert (desk.cleaned, desk.finish.ledger, len(desk.waits.seen)) == ([], ["a"], 2)


async def test_of_several_calls_the_one_that_is_made_again_goes_on_and_the_other_is_stopped(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    first, second, changed = HeldTool(name="first"), HeldTool(name="second"), threading.Event()

    def decide(request: ModelRequest) -> Reply:
        both = (call("first", what="a"), call("second", what="b"))
        return calls(*both[: 1 if changed.is_set() else 2])

    model = ScriptedModel([decide, say("done")])
    async with stage(server, app_of(model, first.tool, second.tool), tmp_path, heartbeat_timeout=1.0) as on:
        submission = await on.harness.conversation().submit("go")
        await first.begun()
        await second.begun()
        run_id = (await submission.status()).generation_id
        changed.set()

        await reset_to_turn(server, on, run_id, 1)
        assert (await on.client.get_workflow_handle(f"{run_id}/t1.1").result())["code"] == "aborted"
        first.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert (first.ledger, second.ledger) == (["a"], ["b"])


async def test_stop_of_a_run_that_was_reset_stops_what_earlier_timelines_went_on_with(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    desk = Desk()
    async with stage(server, desk.app, tmp_path, heartbeat_timeout=1.0) as on:
        submission, waiting = await desk.asked(on)
        desk.changed, desk.delay = True, 60.0

        await reset_to_turn(server, on, run_of(waiting), 2)
        await desk.was_asked_again()
        await succeeds(server, "workflow", "cancel", "--workflow-id", run_of(waiting))

        assert (await submission.wait()).reason == "aborted"
        assert (await waiting.ends()).code == "aborted"
        assert desk.cleaned == ["taken back"]
