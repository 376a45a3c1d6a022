"""Workers of a name are killed, and the default one beside them: code stays with its workers (spec §25.1)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.command import Command
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill
from tests.support.histories import Account
from tests.support.routing import scheduled

WORKER = "special"
SPECIAL = {"TARRY_SERVES": WORKER}


@pytest.fixture
def routed(drill: Callable[..., Drill]) -> Callable[..., Drill]:
    """A drill whose tools run on workers of a name."""

    def make(**settings: Any) -> Drill:
        made = drill(**settings)
        made.app = "tests.support.routed_app:app"
        return made

    return make


async def test_another_worker_of_the_name_takes_over_from_a_killed_one(routed: Callable[..., Drill]) -> None:
    async with routed(max_concurrent_activities=1) as on:
        await on.worker()
        specials = {child.pid for child in (await on.worker(**SPECIAL), await on.worker(**SPECIAL))}
        submission = await on.submit("safe", stop_at=["before the effect"] * 2)
        doomed = await on.reached(submission)
        doomed.signal()
        rerun = await on.reached(submission)
        rerun.let_go()
        after = await on.aftermath(submission)
        (run,) = [id for id in await _workflows(on, submission.conversation_id) if id.endswith("/t1.0")]
        ran = await scheduled(on.harness.client, run, on.settings.task_queue)

    assert {doomed.pid, rerun.pid} == specials
    (ticket,) = after.tickets
    assert after == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1, 2],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=("completed 2",), announced=1),
    )
    assert ran == [("tool-run", WORKER)]


async def test_worker_of_the_name_that_comes_later_is_asked_whether_it_happened(routed: Callable[..., Drill]) -> None:
    async with routed() as on:
        await on.worker()
        await on.worker(**SPECIAL)
        submission = await on.submit("asking", die_at=["after the effect"])
        await on.reached(submission)
        await on.worker(**SPECIAL)
        after = await on.aftermath(submission)
        (run,) = [id for id in await _workflows(on, submission.conversation_id) if id.endswith("/t1.0")]
        ran = await scheduled(on.harness.client, run, on.settings.task_queue)

    (ticket,) = after.tickets
    assert (after.end, after.results, after.runs) == ("done", [f"Opened {ticket}"], [1])
    assert ran == [("tool-run", WORKER), ("reconcile", WORKER)]


async def test_default_worker_is_killed_and_code_elsewhere_runs_on_once(routed: Callable[..., Drill]) -> None:
    async with routed() as on:
        default = await on.worker()
        await on.worker(**SPECIAL)
        submission = await on.submit("unsafe", stop_at=["before the effect"])
        inside = await on.reached(submission)
        await default.kill()
        inside.let_go()
        await on.worker()
        after = await on.aftermath(submission)

    (ticket,) = after.tickets
    assert after == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=("completed 1",)),
    )


async def test_worker_of_a_name_works_beside_default_ones_that_are_a_build(routed: Callable[..., Drill]) -> None:
    async with routed() as on:
        build = {"TARRY_DEPLOYMENT": f"routed-{uuid.uuid4().hex[:8]}", "TARRY_BUILD": "v1"}
        await on.worker(**build)
        await on.worker(**SPECIAL, **build)
        command = Command(on.folder, on._environment())
        current = await command.run("deploy", "current", "v1", "--deployment", build["TARRY_DEPLOYMENT"])
        after = await on.aftermath(await on.submit("keyed"))

    (ticket,) = after.tickets
    assert (current.code, after.end, after.results, after.runs) == (0, "done", [f"Opened {ticket}"], [1])


async def _workflows(on: Drill, conversation_id: str) -> list[str]:
    query = f'TarryConversation = "{conversation_id}"'
    return [found.id async for found in on.harness.client.list_workflows(query)]
