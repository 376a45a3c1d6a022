"""Steers that a Stop overtakes: unanswered, and in the transcript once, whatever becomes of their run (spec §7.4)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tarry.client import Conversation, Submission
from tarry.client.errors import RequestConflict
from tarry.core.messages import UserMessage
from tarry.core.protocol import ABORT
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.archives import fill_archive
from tests.support.held import HeldModel
from tests.support.stage import Stage, app_of, idle_stage, kinds, stage
from tests.support.waiting import eventually
from tests.workflow.test_reset import open_run, reset
from tests.workflow.test_steers import ends, failures, steered, users


class Stubborn:
    """`stubborn()` hears of no Stop, and ends when it is let go: until then its run is being stopped."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.tool: Tool = tool(name="stubborn", description="Work.")(self._work)
        self._begun = threading.Event()

    def _work(self) -> str:
        self._begun.set()
        self.go.wait(60)
        return "did it"

    async def begun(self) -> None:
        """Return when it works."""

        async def is_there() -> bool:
            return self._begun.is_set()

        await eventually(is_there)


@dataclass
class Scene:
    """A conversation whose run is in a call that hears of no Stop."""

    on: Stage
    work: Stubborn
    conversation: Conversation
    first: Submission
    requests: list[list[str]] = field(default_factory=list)

    async def goes_on(self, *stopped: Submission) -> list[tuple[str, str]]:
        """How these ended, once something else was said and answered; nothing of it wedged a workflow."""
        found = await ends([self.first, *stopped])
        answered = await (await self.conversation.submit("again")).wait()
        assert answered.answer_text == "fine"
        assert users(await self.conversation.transcript()) == self.requests[-1]
        assert [why for why in await failures(self.on, self.conversation) if "RESET_WORKFLOW" not in why] == []
        return [(end.status, end.reason) for end in found]


@contextlib.asynccontextmanager
async def at_work(server: EmbeddedServer, store: Path, **settings: int) -> AsyncIterator[Scene]:
    work, requests = Stubborn(), list[list[str]]()

    def script(request: ModelRequest) -> Reply:
        requests.append([one.text for one in request.messages if isinstance(one, UserMessage)])
        return say("fine") if len(requests) > 1 else calls(call("stubborn"))

    app = app_of(ScriptedModel([script] * 9), work.tool)
    async with stage(server, app, store, **settings) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await work.begun()
        try:
            yield Scene(on, work, conversation, first, requests)
        finally:
            work.go.set()


async def test_while_the_run_is_being_stopped_they_count_as_placed_and_a_second_stop_takes_what_came_since(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with at_work(server, tmp_path) as scene:
        (s1,) = await steered(scene.conversation, "s1")
        await scene.conversation.abort()
        status, withdrawal = await s1.status(), await s1.abort()
        same = await scene.conversation.submit("s1", request_id=s1.request_id, when_busy="steer")
        with pytest.raises(RequestConflict):
            await scene.conversation.submit("other", request_id=s1.request_id)
        (s2,) = await steered(scene.conversation, "s2")
        view = await scene.conversation.view()
        await scene.conversation.abort()
        scene.work.go.set()
        found = await scene.goes_on(s1, s2)

    assert (status.status, withdrawal, same.request_id) == ("placed", "already_placed", s1.request_id)
    assert (s1.request_id in view.placed, view.queued) == (True, (s2.request_id,))
    assert found == [("unanswered", "aborted")] * 3
    assert scene.requests[-1] == ["go", "s1", "s2", "again"]


async def test_a_run_that_is_ended_by_force_while_it_is_stopped_leaves_them_behind_the_note_of_its_loss(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with at_work(server, tmp_path) as scene:
        said = await steered(scene.conversation, "s1", "s2")
        run_id = await open_run(scene.conversation)
        await scene.conversation.abort()
        await scene.on.client.get_workflow_handle(run_id).terminate()
        scene.work.go.set()
        found = await scene.goes_on(*said)
        entries = await scene.conversation.transcript()

    assert found == [("unanswered", "lost"), ("unanswered", "aborted"), ("unanswered", "aborted")]
    assert scene.requests[-1] == ["go", "s1", "s2", "again"]
    assert kinds(entries)[-5:] == ["note", "user", "user", "user", "assistant"]


@pytest.mark.parametrize("turnover_events", [10, 4_000])
async def test_a_cancelled_conversation_goes_on_in_a_fresh_run_with_them(
    server: EmbeddedServer, tmp_path: Path, turnover_events: int
) -> None:
    async with at_work(server, tmp_path, turnover_events=turnover_events) as scene:
        said = await steered(scene.conversation, "s1", "s2")
        await scene.on.client.get_workflow_handle(scene.conversation.id).cancel()
        scene.work.go.set()
        found = await scene.goes_on(*said)
        histories = await scene.on.histories(scene.conversation.id)

    assert found == [("unanswered", "aborted")] * 3
    assert scene.requests[-1] == ["go", "s1", "s2", "again"]
    assert "WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in histories[scene.conversation.id]


@pytest.mark.parametrize("when", ["while it is stopped", "when it is over"])
async def test_a_conversation_that_is_reset_to_its_begin_places_them_once_again(
    server: EmbeddedServer, tmp_path: Path, when: str
) -> None:
    """What was said, and the Stop, are applied anew: the run is not started again."""
    async with at_work(server, tmp_path) as scene:
        said = await steered(scene.conversation, "s1", "s2")
        await scene.conversation.abort()
        if when == "when it is over":
            scene.work.go.set()
            await ends(said)
        await reset(server, scene.conversation.id, "--type", "FirstWorkflowTask")
        scene.work.go.set()
        found = await scene.goes_on(*said)

    assert found[1:] == [("unanswered", "aborted")] * 2
    assert scene.requests[-1] == ["go", "s1", "s2", "again"]


async def test_a_run_that_is_reset_while_it_is_stopped_leaves_them_behind_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with at_work(server, tmp_path) as scene:
        said = await steered(scene.conversation, "s1", "s2")
        run_id = await open_run(scene.conversation)
        await scene.conversation.abort()
        await reset(server, run_id, "--type", "FirstWorkflowTask")
        scene.work.go.set()
        found = await scene.goes_on(*said)

    assert found[1:] == [("unanswered", "aborted")] * 2
    assert [text for text in scene.requests[-1] if text != "go"] == ["s1", "s2", "again"]


async def test_an_answer_that_comes_with_the_stop_stands_before_them(server: EmbeddedServer, tmp_path: Path) -> None:
    """Its provider answers though it was hung up on: the input is answered, or ends with the Stop."""
    model = HeldModel(ScriptedModel([say("one"), say("fine")]), deaf=True)
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await model.asked.wait()
        said = await steered(conversation, "s1")
        handle = on.client.get_workflow_handle(conversation.id)
        await handle.execute_update(ABORT)
        model.go.set()
        found = await ends([first, *said])
        model.asked.clear()
        answered = await (await conversation.submit("again")).wait()
        entries = await conversation.transcript()

    assert found[1].reason == "aborted"
    assert answered.answer_text in ("one", "fine")
    assert users(entries) == ["go", "s1", "again"]
    assert found[0].answer is None or found[0].answer < (found[1].entry or 0)


async def test_one_that_is_still_looked_up_when_the_stop_comes_has_an_end_and_stands_at_most_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The conversation has an archive, in which a request id may be: whether it is known takes a while."""
    async with idle_stage(server, app_of(ScriptedModel.for_each_input([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        first = await conversation.submit("go")
        late = await conversation.submit("overtaken", request_id="looked-up", when_busy="steer")
        await conversation.abort()
        async with on.worker():
            found = await ends([first, late])
            answered = await (await conversation.submit("again")).wait()
            said = users(await conversation.transcript())

    assert [end.reason for end in found] == ["aborted", "aborted"]
    assert answered.status == "done"
    assert said.count("overtaken") == (found[1].entry is not None)
    assert said[-1] == "again"
