"""A Stop of parked work: at once, cleaned up after, with one aborted result (spec §4.8, §7.4)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.client import Submission
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import Replay, Tool, tool
from tests.support.answers import answer_to, ask
from tests.support.parking import (
    ANSWER,
    HOUR,
    YES,
    Call,
    Waits,
    names,
    start,
    tools_only,
    waiting_app,
    wedges,
    workflows_only,
)
from tests.support.shell import succeeds
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import PATIENCE, eventually
from workflows import supervise

DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)


@dataclass
class Builds:
    """A service whose builds are cancelled by the tool's hook; its first `failures` cancellations fail."""

    failures: int = 0
    replay: Replay = "unsafe"
    started: list[str] = field(default_factory=list)
    cancelled: list[tuple[Any, Any, str]] = field(default_factory=list)
    woken: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    parks: threading.Event = field(default_factory=threading.Event)

    @property
    def tool(self) -> Tool:
        """`run_ci(ref)`: starts a build, parks on its result, and works on it for as long as it is not let go."""
        return tool(name="run_ci", replay=self.replay, cancel=self._cancel)(self._run)

    def _run(self, ref: str, api: ToolApi) -> Sleep | str:
        """Run CI."""
        if api.wake is None:
            self.started.append(api.memo_sync("build", f"build of {ref}"))
            self.parks.wait(30)
            return Sleep(checkpoint={"build": 7}, signals=DONE.signals, until=DONE.until)
        self.woken.set()
        while not self.go.wait(0.02):
            if api.is_cancelled:
                return "stopped"
        return "passed"

    def _cancel(self, ref: str, api: ToolApi) -> None:
        self.cancelled.append((api.checkpoint, api.memo_sync("build", "no build"), ref))
        if len(self.cancelled) <= self.failures:
            raise ConnectionError("the service does not answer")


CLEANED = ({"build": 7}, "build of main", "main")


def builds(*, parks: bool = True, **fields: Any) -> Builds:
    made = Builds(**fields)
    if parks:
        made.parks.set()
    return made


async def test_stop_of_a_parked_call_cleans_up_once_with_its_last_checkpoint_and_memos(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ci = builds()
    async with stage(server, waiting_app(ci.tool), tmp_path) as on:
        parked = await start(on, ci.tool, ref="main")
        await parked.parked()
        await parked.handle.cancel()
        outcome = await parked.ends()
        late = await on.harness.signal(parked.id, ANSWER, "done", ANSWER.read(YES, 1))
        view = await parked.view()

        assert (outcome.code, outcome.is_error) == ("aborted", True)
        assert "was aborted on request while it was waiting" in outcome.text
        assert ci.cancelled == [CLEANED]
        assert (late.answer, view.state) == ("closed", "over")
        assert wedges(await parked.history()) == []


async def test_clean_up_that_raises_is_tried_again(server: EmbeddedServer, tmp_path: Path) -> None:
    ci = builds(failures=1)
    async with stage(server, waiting_app(ci.tool), tmp_path) as on:
        parked = await start(on, ci.tool, ref="main")
        await parked.parked()
        await parked.handle.cancel()
        outcome = await parked.ends()

    assert ci.cancelled == [CLEANED, CLEANED]
    assert (outcome.code, "Cleanup unknown" in outcome.text) == ("aborted", False)


@pytest.mark.parametrize("hangs", [False, True])
async def test_clean_up_without_success_is_given_up_in_time_and_the_result_says_so(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(supervise, "CLEANUP_SECONDS", 2.5)
    monkeypatch.setattr(supervise, "LEAST_CLEANUP_SECONDS", 2.5)
    tried: list[int] = []
    end = threading.Event()

    def never(api: ToolApi) -> None:
        tried.append(api.attempt)
        if hangs:
            end.wait(30)
        raise ConnectionError("the service does not answer")

    waits = Waits(DONE, cancel=never)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        async with asyncio.timeout(PATIENCE):
            await parked.handle.cancel()
            outcome = await parked.ends()
        end.set()

    assert outcome.code == "aborted"
    assert "Cleanup unknown: what it started outside may still be going on." in outcome.text
    assert hangs or "ConnectionError: the service does not answer" in outcome.text
    assert (len(tried) == 1) is hangs


async def test_stop_while_the_woken_run_works_stops_it_and_cleans_up(server: EmbeddedServer, tmp_path: Path) -> None:
    ci = builds()
    async with stage(server, waiting_app(ci.tool), tmp_path) as on:
        parked = await start(on, ci.tool, ref="main")
        await parked.parked()
        await parked.update("done", YES)
        assert await asyncio.to_thread(ci.woken.wait, 30)
        await parked.handle.cancel()
        outcome = await parked.ends()

    assert outcome.code == "aborted"
    assert "was aborted on request while it ran" in outcome.text
    assert ci.cancelled == [CLEANED]


async def test_stop_between_wake_and_run_cleans_up_and_the_code_is_not_entered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ci = builds(parks=False)
    async with idle_stage(server, waiting_app(ci.tool), tmp_path) as on:
        async with tools_only(on):
            async with workflows_only(on):
                parked = await start(on, ci.tool, ref="main")
                await eventually(parked.view, lambda _: len(ci.started) == 1)
                assert (await parked.update("done", YES)).answer == "delivered"
            ci.parks.set()
            await eventually(parked.events, lambda events: names(events).count("ACTIVITY_TASK_COMPLETED") == 2)
        async with workflows_only(on):
            await eventually(parked.view, lambda view: view.intent == 2)
            await parked.handle.cancel()
            await eventually(parked.view, lambda view: view.state == "over")
        async with on.worker():
            outcome = await parked.ends()

    assert (outcome.code, ci.cancelled, ci.woken.is_set()) == ("aborted", [CLEANED], False)


async def test_park_that_loses_to_a_stop_is_cleaned_up_with_its_checkpoint(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ci = builds(parks=False)
    async with idle_stage(server, waiting_app(ci.tool), tmp_path) as on:
        async with tools_only(on):
            async with workflows_only(on):
                parked = await start(on, ci.tool, ref="main")
                await eventually(parked.view, lambda _: len(ci.started) == 1)
            ci.parks.set()
            await eventually(parked.events, lambda events: "ACTIVITY_TASK_COMPLETED" in names(events))
        await parked.handle.cancel()
        async with on.worker():
            outcome = await parked.ends()

    assert (outcome.code, ci.cancelled) == ("aborted", [CLEANED])
    assert "while it was waiting" in outcome.text


async def test_first_run_that_never_parked_is_not_cleaned_up_after(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE, cancel=lambda: pytest.fail("nothing to clean up"), holds=lambda _: True)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        running = await start(on, waits.tool)
        await waits.ran(1)
        await running.handle.cancel()
        outcome = await running.ends()

    assert (outcome.code, "Cleanup" in outcome.text) == ("aborted", False)


async def test_value_and_stop_that_no_worker_saw_come_are_closed_and_aborted_in_either_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ci = builds()
    ci.go.set()
    async with idle_stage(server, waiting_app(ci.tool), tmp_path) as on:
        async with on.worker():
            first, second = await start(on, ci.tool, ref="main"), await start(on, ci.tool, ref="main")
            await first.parked()
            await second.parked()
        await first.handle.cancel()
        await first.signal("done", YES)
        await second.signal("done", YES)
        await second.handle.cancel()
        async with on.worker():
            ends = [((await parked.ends()).code, await parked.answers(1)) for parked in (first, second)]
            assert [wedges(await parked.history()) for parked in (first, second)] == [[], []]

    assert ends == [("aborted", ["closed"])] * 2
    assert (ci.cancelled, ci.woken.is_set()) == ([CLEANED] * 2, False)


def app_of(*tools: Tool, script: list[Step]) -> App:
    return App(model=ScriptedModel(script), extensions=[Extension("test", tools, [ANSWER])])


async def parked_call(on: Stage, submission: Submission, slot: int = 0) -> Call:
    """The parked call of a run."""
    status = await eventually(submission.status, lambda found: bool(found.generation_id))
    made = Call(on.client, f"{status.generation_id}/t1.{slot}")

    async def state() -> str:
        return (await on.harness.task(made.id)).state

    await eventually(lambda: _quiet(state), lambda found: found == "sleeping")
    return made


async def _quiet(state: Any) -> str:
    try:
        return str(await state())
    except Exception:
        return ""


async def test_stop_of_a_conversation_ends_parked_calls_at_once_and_in_order_and_it_lives_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ci, other = builds(), Waits(DONE)
    script: list[Step] = [calls(call("run_ci", ref="main"), call("waits")), say("still here")]
    async with stage(server, app_of(ci.tool, other.tool, script=script), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        parked = [await parked_call(on, submission, slot) for slot in (0, 1)]
        async with asyncio.timeout(PATIENCE):
            await conversation.abort()
            answer = await answer_to(conversation, submission)
        late = [await on.harness.signal(one.id, ANSWER, "done", ANSWER.read(YES, 1)) for one in parked]
        afterwards = await ask(conversation, "still there?")

    assert (answer.end, answer.codes) == ("unanswered aborted", ["aborted", "aborted"])
    assert ci.cancelled == [CLEANED]
    assert [told.answer for told in late] == ["closed", "closed"]
    assert (afterwards.end, afterwards.text) == ("done", "still here")
    assert (len(other.seen), ci.woken.is_set()) == (1, False)


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_call_that_a_shell_ends_alone_gives_one_aborted_result_and_the_run_goes_on(
    server: EmbeddedServer, tmp_path: Path, how: str
) -> None:
    waits = Waits(DONE)
    script: list[Step] = [calls(call("waits"), call("waits")), say("one was stopped")]
    async with stage(server, app_of(waits.tool, script=script), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        first, second = [await parked_call(on, submission, slot) for slot in (0, 1)]
        await succeeds(server, "workflow", how, "--workflow-id", first.id)
        await second.update("done", YES)
        answer = await answer_to(conversation, submission)

    assert (answer.end, answer.text) == ("done", "one was stopped")
    assert answer.codes == ["aborted", ""]
    assert answer.texts[1] == "signal test.answer/done: yes"
