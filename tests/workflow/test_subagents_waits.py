"""Waits for agents: how long, what ends them, and that they cost the agents nothing (spec §17.43)."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tarry.core.messages import AssistantMessage
from tarry.core.subagents.protocol import Caller, ReadUpdates
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, say
from tests.support.answers import answer_to, ask
from tests.support.delegating import Delegation, delegation
from tests.support.held import HeldTool
from tests.support.waiting import eventually
from tests.workflow.test_steers import users

START = call("subagent", agent="scout", prompt="Work.", task_name="look")
CHILD = [call("work", what="a"), say("found")]


async def waiting_call(made: Delegation) -> str:
    """The id of the one parked `wait_agent`."""

    async def parked() -> list[str]:
        work = made.on.harness.work(conversation_id=made.root.id)
        return [one.id async for one in work if one.tool == "wait_agent" and one.state == "sleeping"]

    return (await eventually(parked))[0]


@pytest.mark.parametrize("seconds", [-1, 0, 1])
async def test_wait_that_brings_nothing_says_since_when_the_child_runs_and_leaves_it_alone(
    server: EmbeddedServer, tmp_path: Path, seconds: float
) -> None:
    held = HeldTool()
    root = [START, call("wait_agent", timeout_seconds=seconds), call("list_agents"), say("done")]
    async with delegation(server, tmp_path, root, {"scout": CHILD}, tools=[held.tool]) as made:
        answer = await ask(made.root)
        await held.begun()
        held.go.set()
        row = await made.becomes("/root/look", "idle")

    waited, listed = answer.texts[1:]
    assert waited.startswith("Nothing yet, which says nothing against them")
    assert re.search(r"- /root/look: (starting|running) since \d\d:\d\d:\d\d UTC \(\d+ s\)", waited)
    assert re.match(r"/root/look (starting|running) since", listed)
    assert row.turns == 1
    assert len(made.heard.requests["root"]) == 4


@pytest.mark.parametrize(("wanted", "granted"), [({}, 30), ({"timeout_seconds": 10_000}, 120)])
async def test_wait_has_a_deadline_of_half_a_minute_and_of_two_minutes_at_most(
    server: EmbeddedServer, tmp_path: Path, wanted: dict[str, float], granted: int
) -> None:
    held = HeldTool()
    root = [START, call("wait_agent", **wanted), say("done")]
    async with delegation(server, tmp_path, root, {"scout": CHILD}, tools=[held.tool]) as made:
        first = await made.root.submit("go")
        view = await made.on.harness.task(await waiting_call(made))
        held.go.set()
        answer = await answer_to(made.root, first)

    assert view.since is not None
    assert view.until is not None
    # It is counted from the start of the call, and that is parked a moment later.
    assert timedelta(seconds=granted - 5) < view.until - view.since <= timedelta(seconds=granted)
    assert answer.texts[1] == "/root/look ended its turn.\nfound"


@pytest.mark.parametrize("hears", [True, False], ids=["heard", "at once"])
async def test_what_is_said_while_the_parent_waits_and_stops_it_stands_once_in_order_before_what_comes_next(
    server: EmbeddedServer, tmp_path: Path, hears: bool
) -> None:
    """Either the first wait has ended for what was said, and the next one is stopped; or all of it comes at once."""
    held = HeldTool()
    waits = [START, *[call("wait_agent", timeout_seconds=120)] * 3]

    def script(request: ModelRequest) -> Reply | Call:
        spoken = [one.text for one in request.messages if one.role == "user"]
        return say("fine") if "again" in spoken else waits[sum(one.role == "assistant" for one in request.messages)]

    async with delegation(server, tmp_path, [script] * 4, {"scout": CHILD}, tools=[held.tool]) as made:
        first = await made.root.submit("go")
        wait = await waiting_call(made)
        said = [first, await made.root.submit("s1", when_busy="steer")]

        async def next_wait() -> bool:
            return await waiting_call(made) != wait

        if hears:
            await eventually(next_wait)
        said.append(await made.root.submit("s2", when_busy="steer"))
        await made.root.abort()
        again = await made.root.submit("again", when_busy="steer")
        answer = await answer_to(made.root, again)
        ends = [await one.wait() for one in said]

    assert (answer.end, answer.text) == ("done", "fine")
    assert {(end.status, end.reason) for end in ends} == {("unanswered", "aborted")}
    assert users(answer.entries) == made.heard.users("root") == ["go", "s1", "s2", "again"]
    responses = [entry.message for entry in answer.entries if isinstance(entry.message, AssistantMessage)]
    assert [one.call_id for one in answer.results] == [asked.call_id for one in responses for asked in one.calls]
    if hears:
        assert "somebody has spoken to you meanwhile" in answer.texts[1]
        # The second wait may have heard of s2 before the Stop, or the tree of the Stop before the second wait.
        ended_by_itself = "somebody has spoken" in answer.texts[2] or "run that asks was stopped" in answer.texts[2]
        assert answer.codes[2] == "aborted" or ended_by_itself


@pytest.mark.parametrize("target", ["..", "/root", "."])
async def test_wait_for_an_agent_above_is_a_circle_and_refused_at_once(
    server: EmbeddedServer, tmp_path: Path, target: str
) -> None:
    root = [call("subagent", agent="lead", prompt="Lead.", task_name="lead"), call("wait_agent"), say("done")]
    lead = [call("wait_agent", agent=target), say("led")]
    async with delegation(server, tmp_path, root, {"lead": lead}) as made:
        await ask(made.root)

    told = made.heard.requests["lead"][-1].messages[-1].text
    assert "waiting in a circle" in told


async def test_siblings_cannot_wait_for_each_other(server: EmbeddedServer, tmp_path: Path) -> None:
    root = [call("subagent", agent="lead", prompt="Lead.", task_name=name) for name in ("a", "b")]
    lead = [call("wait_agent", agent="/root/b"), call("wait_agent", agent="../a"), say("led")]
    async with delegation(server, tmp_path, [*root, call("wait_agent"), say("done")], {"lead": lead}) as made:
        await ask(made.root)
        await made.becomes("/root/a", "idle")
        await made.becomes("/root/b", "idle")

    told = [one.text for one in made.heard.requests["lead"][-1].messages if one.role == "tool"]
    assert all("circle" in text or "is no child of" in text for text in told)
    assert len(told) == 2


async def test_what_a_call_had_read_that_was_ended_by_force_is_told_by_the_next_wait(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = [START, call("work", what="until it is read"), call("wait_agent"), say("done")]
    held = HeldTool()
    async with delegation(server, tmp_path, root, {"scout": [say("found")]}, tools=[held.tool]) as made:
        first = await made.root.submit("go")
        await held.begun()
        await made.becomes("/root/look", "idle")
        ended = Caller(conversation_id=made.root.id, task_id=f"{(await first.status()).generation_id}/t9.0")
        assert (await (await made.tree()).read(ReadUpdates(caller=ended))).completions
        held.go.set()
        answer = await answer_to(made.root, first)

    assert answer.texts[2] == "/root/look ended its turn.\nfound"
