"""A store that cannot be written while a parked call is sent a large value: the call takes it when that is over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tarry.connect import INLINE_BYTES
from tarry.embedded import EmbeddedServer
from tests.support.drills import ONCE_EACH
from tests.support.histories import Account
from tests.support.parked_app import DONE, NEWS
from tests.support.parked_drills import Life, ParkedDrill

GONE = "cannot be written"


async def test_large_value_is_judged_when_the_store_is_back_and_wakes_its_call_once(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with ParkedDrill(server, tmp_path, tracker_url) as on:
        only = await on.worker()
        submission = await on.submit("unsafe")
        task_id = await on.parked_call(submission)
        store = on.folder / "store"
        store.write_text("no directory: nothing can be written below it")

        await on.send(task_id, "x" * (INLINE_BYTES + 1), "d")
        await on.logged(only, GONE)
        store.unlink()

        life = await on.life(submission)
        failed = life.account.failed_tasks
        assert [text for text in failed if GONE not in text] == []
        assert replace(life, account=replace(life.account, failed_tasks=())) == Life(
            results=["x" * 40],
            ledger=["unsafe 1, key 1", f"unsafe 1, key 2, signal {NEWS.name}/{DONE} after asked"],
            account=Account(models=ONCE_EACH, tools=("completed 1", "completed 1")),
        )
