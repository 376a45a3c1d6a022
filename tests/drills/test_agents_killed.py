"""One of two workers is killed around what a tree of agents and its conversations tell each other (spec §17).

Whatever the place, every turn is had and told once, and no more agents execute than there are permits. Each drill is
repeated `TARRY_DRILL_ROUNDS` times.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tests.support.agents_drills import LIMIT, AgentsDrill, Left, Tree
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("TARRY_DRILL_ROUNDS", "1"))

AgentsDrills = Callable[[], AgentsDrill]


def repeated(*points: str) -> pytest.MarkDecorator:
    """So many rounds, each with the next of these points; at least one with each."""
    rounds = range(max(ROUNDS, len(points)))
    return pytest.mark.parametrize("point", [points[number % len(points)] for number in rounds])


@pytest.fixture
def agents(server: EmbeddedServer, tracker_url: str, tmp_path: Path) -> AgentsDrills:
    """Makes a drill with agents."""
    return lambda: AgentsDrill(server, tmp_path, tracker_url)


def whole(number: int, what: str = "work") -> Left:
    """What is left of a root that delegated to so many agents."""
    paths = {f"/root/w{place}": f"w{place}" for place in range(number)}
    return Left(
        answer=f"{number} ended",
        told=dict.fromkeys(paths, 1),
        heard={path: [f"{what} {name}"] for path, name in paths.items()},
        turns=dict.fromkeys(paths, 1),
    )


def kept_to_the_limit(tree: Tree) -> bool:
    return tree.used <= LIMIT and 0 < tree.peak() <= LIMIT


@repeated("working")
async def test_a_child_that_is_killed_at_work_ends_its_turn_and_is_told_of_once(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("w1", point)
        async with tree.watched():
            await tree.submit("delegate 3")
            (await tree.reached("w1")).signal()

            assert await tree.left() == whole(3)
        assert kept_to_the_limit(tree)


@repeated("before the notice", "after the notice", "before the completion", "after the completion")
async def test_a_child_that_is_done_before_its_parent_knows_is_told_of_once(agents: AgentsDrills, point: str) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("w0", point, deadly=True)
        async with tree.watched():
            await tree.submit("delegate 3")
            await tree.reached("w0")

            assert await tree.left() == whole(3)
        assert kept_to_the_limit(tree)


@repeated("working")
async def test_a_parent_that_waits_is_woken_whichever_worker_is_killed(agents: AgentsDrills, point: str) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("w0", point)
        async with tree.watched():
            await tree.submit("delegate 1")
            child = await tree.reached("w0")
            await tree.waits()
            on.kill_other(child)
            child.let_go()

            assert await tree.left() == whole(1)
        assert kept_to_the_limit(tree)


@repeated("before the turn", "before the submission", "after the submission")
async def test_messages_that_were_claimed_are_one_turn_though_the_worker_is_killed_around_its_beginning(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        async with tree.watched():
            await tree.submit("mailbox")
            await tree.left()
            tree.plan("w0", point, deadly=True)
            await tree.submit("more")
            await tree.reached("w0")

            assert await tree.left() == Left(
                answer="the first ended, the second ended",
                told={"/root/w0": 2},
                heard={"/root/w0": ["work w0", "note 0\n\nnote 1"]},
                turns={"/root/w0": 2},
            )
        assert kept_to_the_limit(tree)


@repeated("before the turn", "before the submission", "after the submission")
async def test_a_child_whose_first_turn_is_cut_off_before_it_is_durable_begins_once(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("w0", point, deadly=True)
        async with tree.watched():
            await tree.submit("delegate 2")
            await tree.reached("w0")

            assert await tree.left() == whole(2)
        assert kept_to_the_limit(tree)


@repeated("working", "read")
async def test_an_agent_that_waits_for_one_of_its_own_reads_its_end_once_and_is_told_of_once(
    agents: AgentsDrills, point: str
) -> None:
    """The one below is killed at work; or the one between, when it has read and not told anybody."""
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        killed = "w0/w0" if point == "working" else "w0"
        tree.plan(killed, point, deadly=True)
        async with tree.watched():
            await tree.submit("delegate 1 nest")
            await tree.reached(killed)

            assert await tree.left() == Left(
                answer="1 ended",
                told={"/root/w0": 1, "/root/w0/w0": 1},
                heard={"/root/w0": ["nest w0"], "/root/w0/w0": ["work w0"]},
                turns={"/root/w0": 1, "/root/w0/w0": 1},
            )
        assert kept_to_the_limit(tree)


@repeated("read")
async def test_an_update_that_was_read_and_not_kept_is_read_again_and_told_once(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("", point, deadly=True)
        async with tree.watched():
            await tree.submit("delegate 2")
            await tree.reached("")

            assert await tree.left() == whole(2)
        assert kept_to_the_limit(tree)


@repeated("working")
async def test_permits_of_a_killed_worker_are_held_until_their_turns_end_and_never_twice(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        for name in ("w0", "w1"):
            tree.plan(name, point, point)
        async with tree.watched():
            await tree.submit("delegate 5")
            first, second = await tree.reached("w0"), await tree.reached("w1")
            assert (await tree.listed()).permits_used == LIMIT
            first.signal()
            (await tree.reached("w0")).let_go()
            if second.pid == first.pid:
                second = await tree.reached("w1")
            second.let_go()
            tree.plan("w1", deadly=False)

            assert await tree.left() == whole(5)
        assert kept_to_the_limit(tree)


@repeated("working")
async def test_agents_that_rest_give_their_permits_back_once_and_get_them_again_though_a_worker_is_killed(
    agents: AgentsDrills, point: str
) -> None:
    async with agents() as on:
        await on.pair()
        tree = await on.tree()
        tree.plan("w3", point)
        async with tree.watched():
            await tree.submit("delegate 4 rest")
            (await tree.reached("w3")).signal()
            for name in ("w0", "w1", "w2", "w3"):
                await on.answer(await asking(on, tree, name), "go on")

            assert await tree.left() == whole(4, "rest")
        assert kept_to_the_limit(tree)


async def asking(on: AgentsDrill, tree: Tree, name: str) -> str:
    """The call of an agent that waits for a person."""
    return (await eventually(lambda: on.parked(tree.agent_id(name), "ask_person")))[0]
