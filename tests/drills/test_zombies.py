"""A worker that was taken for dead and comes back: whatever its run still says is refused (spec §4.6)."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGCONT, SIGSTOP, SIGTERM

from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill
from tests.support.histories import Account


async def test_memos_and_result_of_a_zombie_are_refused_and_the_first_memo_is_kept(drill: Callable[..., Drill]) -> None:
    async with drill(shutdown_grace=300) as on:
        frozen = await on.worker()
        submission = await on.submit("remembering", stop_at=["before the effect"] * 2)
        zombie = await on.reached(submission)
        # A stopping worker asks for no more work: what a frozen one had asked for would wait there for ten seconds.
        zombie.signal(SIGTERM)
        await on.logged(frozen, "Beginning worker shutdown")
        zombie.signal(SIGSTOP)
        await on.worker()
        successor = await on.reached(submission)
        assert successor.pid != zombie.pid

        zombie.let_go()
        zombie.signal(SIGCONT)

        assert await on.ended(frozen) == 0, "its run has said all it had to say"
        zombies = {"conversation_id": submission.conversation_id, "chosen": "run 1", "late": "refused to run 1"}
        assert on.lines("memos") == [zombies]
        successor.let_go()
        aftermath = await on.aftermath(submission)
        assert on.lines("memos") == [zombies, {**zombies, "late": "run 2"}]
        assert aftermath == Aftermath(
            end="done",
            kinds=ROUND,
            results=["run 1, run 2"],
            runs=[1, 2],
            tickets=[],
            account=Account(models=ONCE_EACH, tools=("completed 2",), announced=1),
        )
