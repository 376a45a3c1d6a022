"""Agents that wait: others work with their permits, their questions are the root's, a Stop reaches all (spec §17)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from activities.agents.turns import AgentTurns
from signals.parking import Sleep
from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.core.live import Question
from tarry.core.protocol import ABORT
from tarry.core.subagents.orders import BeginTurn, Begun
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.processes import environment_of
from tarry.testing import Call, Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.agent_trees import WORK, Grove, Work, last_input
from tests.support.command import Command
from tests.support.parking import ANSWER, HOUR, Answer
from tests.support.stage import idle_stage
from tests.support.waiting import eventually

ASK = "ask "
"""How an input begins that has the child ask a person the rest of it."""
BOTH = "both "
"""How one begins that has it work and ask at once."""


LEVELS = ["/root/level1", "/root/level1/level2", "/root/level1/level2/level3"]


@dataclass
class Asking:
    """The tool `ask_person(question)`; `went_on`: the questions whose answers its code has read, in order."""

    went_on: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Tool:
        @tool(replay="safe")
        async def ask_person(question: str, api: ToolApi) -> Sleep | str:
            """Ask a person."""
            found = await api.read_signal(ANSWER, "answer")
            if not isinstance(found, Received):
                return Sleep(signals=[ANSWER.key("answer")], until=HOUR, ask=question)
            self.went_on.append(question)
            return found.value.text

        return ask_person


class Shifts:
    """The tool `shifts`: works three times for a moment, and sleeps in between. `peak`: how many worked at once."""

    def __init__(self) -> None:
        self.working = self.peak = self.worked = 0

    @property
    def tool(self) -> Tool:
        @tool(replay="safe")
        async def shifts(api: ToolApi) -> Sleep | str:
            """Work in shifts."""
            done = api.checkpoint or 0
            self.working += 1
            self.peak = max(self.peak, self.working)
            await asyncio.sleep(0.1)
            self.working -= 1
            self.worked += 1
            return "done" if done == 2 else Sleep(until=timedelta(seconds=0.2), checkpoint=done + 1)

        return shifts


def app_with(asking: Asking, work: Work, shifts: Shifts) -> App:
    def first(request: ModelRequest) -> Reply | Call:
        asked = last_input(request)
        if asked.startswith(ASK):
            return call("ask_person", question=asked.removeprefix(ASK))
        if asked.startswith(BOTH):
            what = asked.removeprefix(BOTH)
            return calls(call("work", what=what), call("ask_person", question=what))
        if asked == "shifts":
            return call("shifts")
        return call("work", what=asked.removeprefix(WORK)) if asked.startswith(WORK) else say(f"heard {asked}")

    model = ScriptedModel.for_each_input([first, lambda request: say(f"done {last_input(request)}")])
    return App(model=model, extensions=[Extension("test", [asking.tool, work.tool, shifts.tool], [ANSWER])])


@dataclass
class Asked:
    """A tree whose agents ask and work."""

    grove: Grove
    asking: Asking
    shifts: Shifts

    async def questions(self, number: int) -> dict[str, Question]:
        """The questions at the root, by their text, once there are so many."""
        found = await eventually(
            lambda: self.grove.on.harness.questions(self.grove.root), lambda found: len(found) == number
        )
        return {question.question: question for question in found}

    async def answer(self, question: Question) -> None:
        sent = await self.grove.on.harness.signal(question.task_id, ANSWER, "answer", Answer(text="yes"))
        assert sent.answer == "delivered"


@contextlib.asynccontextmanager
async def asked(server: EmbeddedServer, store: Path, limit: int) -> AsyncIterator[Asked]:
    asking, work, shifts = Asking(), Work(), Shifts()
    async with idle_stage(server, app_with(asking, work, shifts), store, heartbeat_timeout=4.0) as on, on.worker():
        made = Grove(on, work)
        await made.root_it()
        await made.begin(limit)
        yield Asked(made, asking, shifts)
        work.let()


async def test_a_child_that_waits_for_a_person_lets_the_next_one_begin_and_goes_on_behind_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given one permit, when an asking child is answered while another one works, it goes on when that has ended."""
    async with asked(server, tmp_path, limit=1) as one:
        tree = one.grove
        await tree.start("a", f"{ASK}may I?")
        await tree.start("b", f"{WORK}b")
        await tree.work.has_begun("b")
        row = await tree.row("/root/a")
        assert (row.state, row.waits_for) == ("waiting", "may I?")
        assert (await tree.tree.list()).permits_used == 1

        await one.answer((await one.questions(1))["may I?"])
        await eventually(lambda: one.grove.tree.list(), lambda found: found.queued == 1)
        assert one.asking.went_on == []
        tree.work.let("b")

        ended = await tree.completions(2)
        assert [(found.path, found.text) for found in ended] == [
            ("/root/b", f"done {WORK}b"),
            ("/root/a", f"done {ASK}may I?"),
        ]
        await eventually(tree.tree.list, lambda found: (found.permits_used, found.queued) == (0, 0))


async def test_a_child_that_was_woken_comes_before_one_that_has_not_begun(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given one permit in use and a start in the queue, when a waiting child is answered, it is next."""
    async with asked(server, tmp_path, limit=1) as one:
        tree = one.grove
        await tree.start("a", f"{ASK}may I?")
        await tree.start("b", f"{WORK}b")
        await tree.work.has_begun("b")
        await tree.start("c", f"{WORK}c")

        await one.answer((await one.questions(1))["may I?"])
        await eventually(tree.tree.list, lambda found: found.queued == 2)
        tree.work.let("b")
        await tree.work.has_begun("c")

        assert one.asking.went_on == ["may I?"]
        assert tree.work.peak == 1


async def test_a_run_that_a_message_begins_behind_a_stopped_one_waits_for_a_permit(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a child at rest and one permit in use, when a person stops it while a message joins its turn, it waits."""
    is_stopped = asyncio.Event()
    begin = AgentTurns.begin

    async def begin_late(turns: AgentTurns, tree_id: str, order: BeginTurn) -> Begun:
        if order.joins:
            await is_stopped.wait()
        return await begin(turns, tree_id, order)

    monkeypatch.setattr(AgentTurns, "begin", begin_late)
    async with asked(server, tmp_path, limit=1) as one:
        tree = one.grove
        child = await tree.start("a", f"{ASK}may I?")
        await tree.start("b", f"{WORK}b")
        await tree.work.has_begun("b")
        assert (await tree.follow_up("a", f"{WORK}a")).state == "joined"
        await tree.on.harness.conversation(child.agent_id).abort()
        await one.questions(0)
        is_stopped.set()

        await eventually(tree.tree.list, lambda found: (found.permits_used, found.queued) == (1, 1))
        tree.work.let("b")
        await tree.work.has_begun("a")

        assert tree.work.peak == 1
        tree.work.let("a")
        ended = {found.path: found.text for found in await tree.completions(2)}
        assert ended == {"/root/b": f"done {WORK}b", "/root/a": f"done {WORK}a"}
        await eventually(tree.tree.list, lambda found: (found.permits_used, found.queued) == (0, 0))


async def test_a_turn_behind_a_run_of_a_person_that_is_stopped_at_rest_waits_for_a_permit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a turn in the queue of its agent's conversation behind a run that a person began, when that run rests,
    another agent takes its permit; when the run is stopped, the turn begins when the other one has ended."""
    async with asked(server, tmp_path, limit=1) as one:
        tree = one.grove
        child = await tree.start("a", "hello")
        await tree.completions(1)
        conversation = tree.on.harness.conversation(child.agent_id)
        await conversation.submit(f"{BOTH}person")
        await tree.work.has_begun("person")
        assert (await tree.follow_up("a", f"{WORK}a")).state == "running"
        await eventually(conversation.view, lambda found: bool(found.queued))
        await tree.start("b", f"{WORK}b")

        tree.work.let("person")
        await tree.work.has_begun("b")
        run = (await conversation.view()).open_generation
        assert run is not None
        await tree.on.client.get_workflow_handle(run).signal(ABORT)
        await eventually(tree.tree.list, lambda found: (found.permits_used, found.queued) == (1, 1))
        tree.work.let("b")
        await tree.work.has_begun("a")

        assert tree.work.peak == 1
        tree.work.let("a")
        ended = [(found.path, found.text) for found in await tree.completions(2)]
        assert ended == [("/root/b", f"done {WORK}b"), ("/root/a", f"done {WORK}a")]
        await eventually(tree.tree.list, lambda found: (found.permits_used, found.queued) == (0, 0))


async def test_however_often_agents_rest_and_wake_no_more_than_may_execute_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given two permits, when eight agents each sleep twice in their turns, all end, and two at most ever work."""
    async with asked(server, tmp_path, limit=2) as one:
        for name in "abcdefgh":
            await one.grove.start(name, "shifts")

        ended = await one.grove.completions(8)

        assert {found.status for found in ended} == {"done"}
        assert (one.shifts.worked, one.shifts.peak) == (24, 2)
        await eventually(one.grove.tree.list, lambda found: (found.permits_used, found.queued) == (0, 0))


async def three_levels(one: Asked) -> list[str]:
    """A child, its child and that one's, each of which asks; their ids, downwards."""
    ids: list[str] = []
    for level in "123":
        by = one.grove.caller(ids[-1]) if ids else None
        started = await one.grove.start(f"level{level}", f"{ASK}level {level}?", by=by)
        await one.grove.becomes(started.path, "waiting")
        ids.append(started.agent_id)
    return ids


async def test_a_question_three_levels_down_is_the_roots_and_tells_its_path(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given agents that ask at three levels, when the root's questions are listed, each has its whole path."""
    async with asked(server, tmp_path, limit=1) as one:
        ids = await three_levels(one)
        found = await one.questions(3)

        above = [one.grove.root, *ids]
        for level in (1, 2, 3):
            path = found[f"level {level}?"].path
            assert [step for step in path if step in above] == above[: level + 1]
            assert path[-1].startswith(f"{ids[level - 1]}~")
        assert [question.question for question in await one.grove.on.harness.questions(ids[1])] == [
            "level 2?",
            "level 3?",
        ]
        command = Command(tmp_path, environment_of(server.address))
        listed, drawn = await command.run("ps", "--json"), await command.run("ps")
        agents = {item["id"]: item["agent"] for item in listed.json["work"] if item["agent"]}
        assert {agent_id: agents[agent_id] for agent_id in ids} == dict(zip(ids, LEVELS, strict=True))
        assert f"{one.grove.root} › {LEVELS[2]} › ask_person" in drawn.out


async def test_a_stop_of_the_root_ends_all_that_waits_below_it_within_seconds(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given agents that wait at three levels, when the root is stopped, nothing of them waits or executes any more."""
    async with asked(server, tmp_path, limit=1) as one:
        await three_levels(one)
        began = time.monotonic()

        await one.grove.on.harness.conversation(one.grove.root).abort()

        await one.questions(0)
        rows = await eventually(one.grove.tree.list, lambda found: all(row.state == "idle" for row in found.agents))
        assert time.monotonic() - began < 30
        assert [row.path for row in rows.agents] == LEVELS
        assert (rows.permits_used, rows.queued, one.asking.went_on) == (0, 0, [])
