"""What comes while one run is open, so that no turn of the workflow makes room: its end always fits (spec §1.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry import App, Extension
from tarry.client import Conversation
from tarry.client.errors import InboxFull
from tarry.core.agent import AgentChange
from tarry.core.choices import CONFIGURE
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tests.replay import kept
from tests.support.held import HeldTool
from tests.support.stage import Stage, stage
from tests.workflow.conftest import EVENT_LIMIT
from workflows.conversation import room

SIGNALS = 60
"""So many plain signals the conversations of these tests are sent at most."""


def held_app(held: HeldTool) -> App:
    model = ScriptedModel([calls(call("work", what="long")), say("done"), *[say("next")] * 4])
    return App(model=model, extensions=[Extension("test", [held.tool])])


async def configured_until_full(conversation: Conversation) -> InboxFull:
    for number in range(EVENT_LIMIT):
        try:
            await conversation.configure(instructions=f"number {number}")
        except InboxFull as error:
            return error
    raise AssertionError


async def flooded(on: Stage, conversation: Conversation) -> set[str]:
    """The reasons that are remembered when as many plain signals have come as may come still."""
    handle = on.client.get_workflow_handle(conversation.id)
    for number in range(SIGNALS - 5):
        await handle.signal(CONFIGURE, AgentChange(instructions=f"more {number}"))
    return {one.reason for one in (await conversation.view()).refusals}


async def test_past_the_updates_of_a_run_the_plain_signal_is_the_road(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_UPDATES", 2)
    held = HeldTool()
    async with stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await held.begun()
        steers = [await conversation.submit(f"steer {n}", when_busy="steer", request_id=f"s{n}") for n in range(4)]
        again = await conversation.submit("steer 0", when_busy="steer", request_id="s0")
        withdrawn = await conversation.withdraw("s3")
        chosen = await conversation.configure(instructions="be brief")
        with pytest.raises(InboxFull):
            await conversation.commit(notes=["by update alone"])
        held.go.set()
        ends = [await one.wait() for one in (first, *steers)]

    assert [again.view is not None, withdrawn, chosen] == [True, "accepted", None]
    assert steers[2].view is not None, "it has been waited for"
    assert [end.status for end in ends] == ["done", "done", "done", "done", "unanswered"]


@pytest.mark.parametrize("ended_by", ["its answer", "Stop"])
async def test_stop_and_the_end_of_a_run_fit_however_much_comes_while_it_is_open(
    lowered_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    monkeypatch.setattr(room, "EVENTS", EVENT_LIMIT - 100)
    monkeypatch.setattr(room, "SIGNALS", SIGNALS)
    held = HeldTool()
    async with stage(lowered_server, held_app(held), tmp_path, turnover_events=50) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await held.begun()

        refused = await configured_until_full(conversation)
        reasons = await flooded(on, conversation)
        if ended_by == "Stop":
            await conversation.abort()
        else:
            held.go.set()
        end = await first.wait()
        held.go.set()
        after = await (await conversation.submit("and now?", request_id="next")).wait()
        runs = [one async for one in on.client.list_workflows(f'WorkflowId = "{conversation.id}"')]
        histories = [await on.client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history() for one in runs]
        for history in histories:  # with the limits that they were made under
            await kept.replayer().replay_workflow(history)

    assert str(refused) == room.FULL
    assert reasons == {f"{CONFIGURE}: {room.FULL}"}
    assert (end.status, end.reason) == (("unanswered", "aborted") if ended_by == "Stop" else ("done", ""))
    assert after.status == "done"
