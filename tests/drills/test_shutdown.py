"""SIGTERM is no crash: running work gets its grace, then it is given back and nothing is counted (spec §4.4)."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGTERM

import pytest

from tarry.core import results
from tarry.embedded import EmbeddedServer
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill, settled
from tests.support.histories import Account

GIVEN_BACK = "failed 1"

Stopped = dict[str, Aftermath]


@pytest.fixture(scope="module")
async def stopped(server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """Two workers, one after the other, are told to stop with work under way; a single crash would be one too many."""
    folder = tmp_path_factory.mktemp("stopped")
    async with Drill(server, folder, tracker_url, restart_limit=1) as on:
        await on.worker()
        submissions = {
            "safe": await on.submit("safe", stop_at=["before the effect"] * 2),
            "mid-stream": await on.submit("say half one, half two", stop_at=["mid-stream"] * 2),
            "unsafe": await on.submit("unsafe", stop_at=["before the effect"]),
        }
        for submission in submissions.values():
            await on.reached(submission)
        assert await on.stop(on.workers[0]) == 0
        await on.worker()
        await settled(submissions["unsafe"])
        for name in ("safe", "mid-stream"):
            await on.reached(submissions[name])
        assert await on.stop(on.workers[1]) == 0
        await on.worker()
        return {name: await on.aftermath(submission) for name, submission in submissions.items()}


async def test_safe_tool_is_given_back_after_the_grace_and_runs_again_uncounted(stopped: Stopped) -> None:
    (ticket,) = stopped["safe"].tickets
    assert stopped["safe"] == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1, 2, 3],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=(GIVEN_BACK, GIVEN_BACK, "completed 1")),
    )


async def test_unsafe_tool_is_interrupted_after_the_grace(stopped: Stopped) -> None:
    assert stopped["unsafe"] == Aftermath(
        end="done",
        kinds=ROUND,
        results=[results.interrupted("unsafe", "run 1 begins\n").text],
        runs=[1],
        tickets=[],
        account=Account(models=ONCE_EACH, tools=(GIVEN_BACK,)),
    )


async def test_model_request_mid_stream_is_given_back_and_sent_again_uncounted(stopped: Stopped) -> None:
    assert stopped["mid-stream"] == Aftermath(
        end="done",
        kinds=["user", "aborted", "aborted", "assistant"],
        results=[],
        runs=[],
        tickets=[],
        account=Account(models=(GIVEN_BACK, GIVEN_BACK, "completed 1")),
    )


async def test_idle_worker_leaves_at_once_and_a_busy_one_when_its_tool_has_ended(drill: Callable[..., Drill]) -> None:
    async with drill(shutdown_grace=300) as on:
        busy = await on.worker()
        submission = await on.submit("unsafe", stop_at=["before the effect"])
        tool = await on.reached(submission)
        idle = await on.worker()

        assert await on.stop(idle) == 0
        tool.signal(SIGTERM)
        await on.logged(busy, "Beginning worker shutdown")
        tool.let_go()

        assert await on.ended(busy) == 0
        await on.worker()
        aftermath = await on.aftermath(submission)
        (ticket,) = aftermath.tickets
        assert aftermath == Aftermath(
            end="done",
            kinds=ROUND,
            results=[f"Opened {ticket}"],
            runs=[1],
            tickets=[ticket],
            account=Account(models=ONCE_EACH, tools=("completed 1",)),
        )
