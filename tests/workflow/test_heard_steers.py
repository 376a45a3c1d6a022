"""Tools that hear of steers: a long wait makes room for what a person says meanwhile (spec §6.7)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.client import Conversation
from tarry.core.mail import STEER_KEY, STEERED
from tarry.embedded import EmbeddedServer
from tarry.models import Model
from tarry.testing import ScriptedModel, call, say
from tarry.tools import Tool, tool
from tests.support.answers import answer_to
from tests.support.held import HeldModel
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually
from tests.workflow.test_steers import users


async def nap(api: ToolApi) -> str | Sleep:
    """Wait for long, or until somebody speaks."""
    if api.wake is None:
        return Sleep(until=timedelta(minutes=10), signals=[STEERED.key(STEER_KEY)])
    return f"woken by {api.wake.signal}"


HEARING = tool(replay="safe", hears_steers=True)(nap)
DEAF = tool(replay="safe")(nap)


def app_of(napping: Tool, model: Model | None = None) -> App:
    return App(model=model or ScriptedModel([call("nap"), say("done")]), extensions=[Extension("test", [napping])])


async def parked(on: Stage, conversation: Conversation) -> str:
    """The id of the one call that is parked."""

    async def sleeping() -> list[str]:
        items = [item async for item in on.harness.work(conversation_id=conversation.id)]
        return [item.id for item in items if item.state == "sleeping"]

    return (await eventually(sleeping))[0]


async def signalled(on: Stage, workflow_id: str) -> int:
    """How many plain signals a workflow has had."""
    history = await on.client.get_workflow_handle(workflow_id).fetch_history()
    return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in history.events)


async def test_steer_wakes_a_call_that_hears_of_it_and_is_placed_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(HEARING), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await parked(on, conversation)
        await conversation.submit("faster", when_busy="steer")
        answer = await answer_to(conversation, first)

    assert answer.texts == ["woken by tarry.steered"]
    assert answer.kinds == ["user", "assistant", "tool_result", "user", "assistant"]
    assert users(answer.entries) == ["go", "faster"]


async def test_write_and_follow_up_wake_no_call_and_a_steer_after_them_does(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(HEARING), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        task_id = await parked(on, conversation)
        await conversation.write("for the record", kind="user")
        await conversation.submit("later")
        await eventually(lambda: signalled(on, task_id.rpartition("/")[0]))
        told_of_writes = await signalled(on, task_id)
        await conversation.submit("faster", when_busy="steer")
        answer = await answer_to(conversation, first)

    assert told_of_writes == 0
    assert answer.texts[0] == "woken by tarry.steered"
    assert users(answer.entries)[:3] == ["go", "for the record", "faster"]


async def test_steer_that_came_before_the_call_wakes_it(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([call("nap"), say("done")]))
    async with stage(server, app_of(HEARING, model), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await model.asked.wait()
        await conversation.submit("faster", when_busy="steer")
        model.go.set()
        answer = await answer_to(conversation, first)

    assert answer.texts == ["woken by tarry.steered"]
    assert users(answer.entries) == ["go", "faster"]


async def test_call_of_a_tool_that_does_not_hear_is_told_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(DEAF), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        task_id = await parked(on, conversation)
        steer = await conversation.submit("faster", when_busy="steer")
        await eventually(lambda: signalled(on, task_id.rpartition("/")[0]))
        told = await signalled(on, task_id)
        await conversation.abort()
        answer = await answer_to(conversation, first)
        settled = await steer.wait()

    assert told == 0
    assert (answer.codes, settled.reason) == (["aborted"], "aborted")
