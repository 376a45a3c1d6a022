"""A worker is killed while a command of its agent runs."""

from __future__ import annotations

from pathlib import Path

from tarry.core import results
from tarry.embedded import EmbeddedServer
from tests.support.coding import TREE, none_left, tag, tagged
from tests.support.drills import ROUND, Drill
from tests.support.waiting import eventually


class CodingDrill(Drill):
    """With an agent that runs what it is told to."""

    app = "tests.support.coding_app:app"


async def test_bash_killed_with_its_worker_is_interrupted_with_its_output_and_nothing_of_it_goes_on(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    mine = tag()

    async def left() -> list[int]:
        return tagged(mine)

    with none_left(mine):
        async with CodingDrill(server, tmp_path, tracker_url) as on:
            first = await on.worker()
            submission = await on.submit(f"bash {TREE.format(tag=mine)}")
            assert submission.view is not None
            await eventually(left)
            await on.published(f"{submission.view.generation_id}/t1.0", "begun")
            await first.kill()
            await on.worker()
            aftermath = await on.aftermath(submission)
            await eventually(left, lambda processes: not processes)

    assert (aftermath.end, aftermath.kinds) == ("done", ROUND)
    assert aftermath.results == [results.interrupted("bash", "begun\n").text]
