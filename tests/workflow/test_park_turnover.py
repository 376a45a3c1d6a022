"""A task that is parked often, or long, or much spoken to: its run turns over and nothing is lost (spec §3.11)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.embedded import EmbeddedServer
from tarry.tools import tool
from tests.support.parking import QUICK, start, waiting_app
from tests.support.stage import stage

NOW = timedelta(0)
OFTEN = QUICK.model_copy(update={"turnover_events": 60})


async def test_call_that_never_waits_long_turns_over_and_keeps_all_it_has(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    polls = 60
    seen: list[tuple[int, str]] = []

    @tool
    def polling(api: ToolApi) -> Sleep | str:
        number = api.checkpoint or 0
        began = api.memo_sync("began", number)
        seen.append((number, str(began)))
        return Sleep(until=NOW, checkpoint=number + 1) if number < polls else "over"

    async with stage(lowered_server, waiting_app(polling), tmp_path) as on:
        call = await start(on, polling, OFTEN)
        outcome = await call.ends()
        runs = await on.client.count_workflows(f'WorkflowId = "{call.id}"')

    assert outcome.text == "over"
    assert seen == [(number, "0") for number in range(polls + 1)]
    assert runs.count > 5
