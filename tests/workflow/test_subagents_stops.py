"""Interrupts and Stops: what is below ends, nothing starts later, and every agent stays addressable (spec §17.44)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tarry.core.subagents.protocol import AgentRow
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import answer_to, ask
from tests.support.delegating import Delegation, delegation, last_user
from tests.support.held import HeldTool
from tests.support.waiting import eventually

START = call("subagent", agent="scout", prompt="Work.", task_name="look")
STOP = call("interrupt_agent", agent="look")
WAIT = call("wait_agent", timeout_seconds=120)


def until_begun(held: HeldTool, runs: int = 1) -> Tool:
    """A tool that returns when the held one has begun that often."""

    def until_begun() -> None:
        while len(held.ledger) < runs:
            time.sleep(0.02)

    return tool(description="Wait.")(until_begun)


async def test_interrupt_returns_when_the_turn_is_over_and_a_second_one_does_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    root = [START, call("until_begun"), STOP, STOP, WAIT, say("done")]
    child = [call("work", what="a"), say("found")]
    async with delegation(server, tmp_path, root, {"scout": child}, tools=[held.tool, until_begun(held)]) as made:
        answer = await ask(made.root)
        row = await made.row("/root/look")

    stopped, again, read = answer.texts[2:]
    assert stopped == "/root/look was stopped."
    assert again == "/root/look was doing nothing."
    assert read.startswith("/root/look gave no answer (aborted")
    assert (row.state, row.turns) == ("idle", 1)


async def test_agent_that_was_stopped_goes_on_with_a_follow_up_and_can_be_stopped_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def scout(request: ModelRequest) -> Reply | Call:
        return say("well") if last_user(request) == "Rest." else call("work", what="a")

    on = [call("followup_task", agent="look", message=text) for text in ("More.", "Rest.")]
    root = [START, call("until_begun"), STOP, on[0], STOP, WAIT, on[1], WAIT, say("done")]
    async with delegation(server, tmp_path, root, {"scout": [scout]}, tools=[held.tool, until_begun(held)]) as made:
        answer = await ask(made.root)
        row = await made.row("/root/look")

    assert answer.texts[4] == "/root/look was stopped."
    assert answer.texts[5].count("gave no answer (aborted") == 2
    assert answer.texts[7] == "/root/look ended its turn.\nwell"
    assert made.heard.users("scout")[-1] == "Rest."
    assert (row.state, row.turns) == ("idle", 3)


async def test_only_a_descendant_can_be_interrupted(server: EmbeddedServer, tmp_path: Path) -> None:
    root = [call("subagent", agent="lead", prompt="Lead.", task_name=name) for name in ("a", "b")]
    tries = [call("interrupt_agent", agent=target) for target in ("/root", "..", "../a", "../b", ".", "/other", "")]
    async with delegation(
        server, tmp_path, [*root, WAIT, WAIT, say("done")], {"lead": [calls(*tries), say("led")]}
    ) as made:
        await ask(made.root)
        rows = [await made.becomes(f"/root/{name}", "idle") for name in ("a", "b")]

    told = [one for one in made.heard.requests["lead"][-1].messages if one.role == "tool"]
    assert len(told) == len(tries)
    assert all(one.is_error for one in told)
    assert [row.turns for row in rows] == [1, 1]


async def test_stop_of_the_root_ends_the_whole_tree_and_nothing_starts_afterwards(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    spawned: list[str] = []

    def spawn(request: ModelRequest) -> Call:
        spawned.append(last_user(request))
        return call("subagent", agent="leaf", prompt=f"Work {len(spawned)}.")

    root = [calls(*(call("subagent", agent="lead", prompt="Lead.", task_name=f"lead{n}") for n in range(4))), WAIT]
    leaf = [call("work", what="a"), say("found")]
    async with delegation(
        server,
        tmp_path,
        [*root, *[WAIT] * 20],
        {"lead": [spawn] * 50, "leaf": leaf},
        tools=[held.tool],
        max_concurrent_runs=12,
        max_agents=40,
    ) as made:
        first = await made.root.submit("go")
        await held.begun(4)
        began = time.monotonic()
        await made.root.abort()
        await answer_to(made.root, first)
        await eventually(lambda: at_work(made), lambda rows: not rows)
        took = time.monotonic() - began
        begun, turns = len(held.ledger), sum(row.turns for row in await made.rows())
        await asyncio.sleep(2)
        later = len(held.ledger), sum(row.turns for row in await made.rows())
        left = [one.id for one in await made.calls()]
        rows = await made.rows()

    assert took < 10
    assert later == (begun, turns)
    assert left == []
    assert len(rows) <= 40
    assert max(row.path.count("/") for row in rows) <= 4


async def at_work(made: Delegation) -> list[AgentRow]:
    """The agents that do something, or will."""
    return [row for row in await made.rows() if row.state not in ("idle", "ready")]


async def test_depth_and_number_of_agents_are_bounded(server: EmbeddedServer, tmp_path: Path) -> None:
    down = call("subagent", agent="lead", prompt="Deeper.")
    async with delegation(
        server,
        tmp_path,
        [calls(down, down, down), WAIT, say("done")],
        {"lead": [down, say("led")]},
        max_depth=2,
        max_agents=4,
    ) as made:
        answer = await ask(made.root)
        await eventually(lambda: at_work(made), lambda rows: not rows)
        rows = await made.rows()

    assert len(rows) == 4
    assert {row.path.count("/") - 1 for row in rows} <= {1, 2}
    assert answer.end == "done"
