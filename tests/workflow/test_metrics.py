"""What workers and gateways count (spec §24): by real processes, read as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.testing import Stage
from tests.support.scraping import ANY_PORT, Scrape, scrape
from tests.support.seen_app import NAME, WORDS, Words
from tests.support.waiting import eventually


async def test_a_worker_tells_what_its_runs_asked_spent_parked_and_were_woken_by(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(**ANY_PORT, TARRY_MAX_CACHED_WORKFLOWS="0")
        submission = await stage.harness.conversation("counted").submit("ask")
        task_id = await stage.parked("counted")
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Blue"))
        await submission.wait()
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Red"))
        found = await scrape(worker.log)

    assert found.total("tarry_runs_total", outcome="done") == 1
    assert found.total("tarry_model_requests_total", model="scripted/1", outcome="ok") == 2
    assert found.total("tarry_tokens_total", model="scripted/1", type="input") > 0
    assert found.total("tarry_calls_total", tool="ask_ana", replay="safe", outcome="ok") == 1
    assert found.total("tarry_tool_runs_total", tool="ask_ana", replay="safe", rerun="false") == 2
    assert found.total("tarry_parks_total", kind="call", state="sleeping") == 1
    assert found.total("tarry_wakes_total", kind="call", reason="signal") == 1
    assert found.total("tarry_deliveries_total", answer="delivered") == 1
    assert found.types["temporal_workflow_task_execution_latency"] == "histogram"


async def test_the_gauges_hold_with_no_worker_up(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker()
        submission = await stage.harness.conversation("gauged").submit("ask")
        task_id = await stage.parked("gauged")
        await worker.stop()
        gateway = await stage.start_gateway(**ANY_PORT)

        async def told() -> Scrape:
            return await scrape(gateway.log)

        found = await eventually(told, lambda found: found.total("tarry_parked") == 1)
        assert found.total("tarry_parked", kind="call", state="sleeping") == 1
        assert found.total("tarry_parked_oldest_seconds", kind="call", state="sleeping") > 0
        assert found.total("tarry_questions") == 1
        assert found.total("tarry_questions_oldest_seconds") > 0
        assert found.total("tarry_runs_open") == 1
        assert found.total("tarry_overdue") == 0
        assert found.total("tarry_looked_at_seconds") > 0

        await stage.start_worker()
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Blue"))
        await submission.wait()
        await eventually(told, lambda found: found.total("tarry_parked") == 0)
