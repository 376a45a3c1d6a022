"""A result too large for history is in the store: it outlives its worker, and a store that is gone for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tarry.connect import INLINE_BYTES
from tests.support.drills import Aftermath, Drill
from tests.support.histories import Account

GONE = "is missing from the store"


async def test_large_result_of_a_killed_worker_is_read_as_soon_as_its_store_is_back(
    drill: Callable[..., Drill],
) -> None:
    async with drill() as on:
        first = await on.worker()
        submission = await on.submit("big", stop_at=["request after a result"])
        await on.reached(submission)
        await first.kill()
        store, elsewhere = on.folder / "store", on.folder / "elsewhere"
        store.rename(elsewhere)

        await on.logged(await on.worker(), GONE)
        elsewhere.rename(store)

        aftermath = await on.aftermath(submission)
        (result,) = aftermath.results
        assert len(result) > INLINE_BYTES
        failed = aftermath.account.failed_tasks
        assert [text for text in failed if GONE not in text] == []
        assert replace(aftermath, account=replace(aftermath.account, failed_tasks=())) == Aftermath(
            end="done",
            kinds=["user", "assistant", "tool_result", "note", "assistant"],
            results=[result],
            runs=[1],
            tickets=[],
            account=Account(models=("completed 1", "timed out 1", "completed 1"), tools=("completed 1",)),
        )
