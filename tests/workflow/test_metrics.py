"""What workers and gateways count (spec §24): by real processes, read as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import ChildError
from tarry.seeing.metrics import LOOK_METRICS, SCALE_METRICS, WEBHOOKS, WORKER_METRICS
from tarry.testing import Stage
from tests.support.command import Command
from tests.support.programs import ROOT
from tests.support.scaling import scaled
from tests.support.scraping import ANY_PORT, Scrape, address_in, scrape
from tests.support.seen_app import HOOKED, NAME, WORDS, Words
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


OF_THE_SDK = {"namespace", "task_queue", "workflow_type", "activity_type"}
"""Labels that the SDK adds to what workflows and activities count, and we to gauges."""


async def test_every_metric_of_a_worker_is_exported_with_its_labels(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(HOOKED, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(**ANY_PORT)
        talk = stage.harness.conversation(tmp_path.name)
        for word in ("soon", "delegate-soon"):
            await (await talk.submit(word)).wait()
        submission = await talk.submit("ask")
        await stage.harness.signal(await stage.parked(talk.id), WORDS, "answer", Words(text="Blue"))
        await submission.wait()
        await (await talk.compact()).wait()
        (tmp_path / "store").write_text("in the place of the store's folder")
        await talk.submit("big")

        async def told() -> Scrape:
            return await scrape(worker.log)

        found = await eventually(told, lambda found: found.total("tarry_store_errors_total", operation="write") > 0)

    assert {metric.name: found.types.get(metric.name) for metric in WORKER_METRICS} == {
        metric.name: metric.kind for metric in WORKER_METRICS
    }
    assert {metric.name: found.labels(metric.name) - OF_THE_SDK for metric in WORKER_METRICS} == {
        metric.name: set(metric.labels) for metric in WORKER_METRICS
    }
    assert {name for name in found.types if name.startswith("tarry_")} == {metric.name for metric in WORKER_METRICS}


async def test_every_metric_of_a_gateway_is_exported_with_its_labels(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        gateway = await stage.start_gateway(**ANY_PORT)
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(f"{gateway.ready_line}/webhooks/unknown")

        async def told() -> Scrape:
            return await scrape(gateway.log)

        found = await eventually(told, lambda found: found.total("tarry_looked_at_seconds") > 0)

    wanted = (WEBHOOKS, *LOOK_METRICS)
    assert {metric.name: found.labels(metric.name) - OF_THE_SDK for metric in wanted} == {
        metric.name: set(metric.labels) for metric in wanted
    }
    assert {name for name in found.types if name.startswith("tarry_")} == {metric.name for metric in wanted}
    assert found.total("tarry_webhooks_total", source="", answer="refused") == 1


@pytest.mark.parametrize(("tool", "outcome", "reruns"), [("fragile", "ok", 1), ("brittle", "interrupted", 0)])
async def test_what_became_of_a_killed_workers_call_is_counted_once_by_the_one_that_takes_over(
    server: EmbeddedServer, tmp_path: Path, tool: str, outcome: str, reruns: int
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        first = await stage.start_worker(**ANY_PORT)
        submission = await stage.harness.conversation(tmp_path.name).submit(tool)
        await first.wait()
        second = await stage.start_worker(**ANY_PORT, TARRY_MAX_CACHED_WORKFLOWS="0")
        await submission.wait()
        found = await scrape(second.log)

    assert found.total("tarry_calls_total", tool=tool) == found.total("tarry_calls_total", tool=tool, outcome=outcome)
    assert found.total("tarry_calls_total", tool=tool, outcome=outcome) == 1
    assert found.total("tarry_tool_runs_total", tool=tool, rerun="true") == reruns
    assert found.total("tarry_tool_runs_total", tool=tool, rerun="false") == 0
    # Of a safe tool its call hears nothing as long as the server runs it again.
    assert found.total("tarry_workers_lost_total", kind="call") == 1 - reruns


async def test_a_supervisor_shows_how_work_stands_and_counts_its_workers(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        tarry = Command(tmp_path, stage.environment())
        variables = {**ANY_PORT, "TARRY_LOG_LEVEL": "info", "TARRY_SCALE_MIN": "1"}
        async with scaled(tarry, NAME, variables, PYTHONPATH=str(ROOT)) as scale:
            assert scale.process.stderr is not None
            (tmp_path / "said.log").write_bytes(await scale.process.stderr.readline())
            await scale.until("serving")
            await stage.harness.conversation(tmp_path.name).submit("ask")
            await stage.parked(tmp_path.name)

            async def told() -> Scrape:
                return await scrape(tmp_path / "said.log")

            found = await eventually(told, lambda found: found.total("tarry_parked") == 1)

    wanted = (*LOOK_METRICS, *SCALE_METRICS)
    assert {name for name in found.types if name.startswith("tarry_")} <= {metric.name for metric in wanted}
    assert found.total("tarry_scale_workers") == 1
    assert found.total("tarry_scale_starts_total", cause="minimum") == 1
    assert found.total("tarry_scale_deaths_total") == 0


async def test_processes_share_a_range_of_ports_and_one_that_finds_none_says_so(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        first = await stage.start_worker(**ANY_PORT)
        port = int(address_in(first.log).rpartition(":")[2].partition("/")[0])
        second = await stage.start_worker(TARRY_METRICS=f"127.0.0.1:{port}-{port + 50}")
        assert address_in(second.log) != address_in(first.log)
        assert (await scrape(second.log)).total("tarry_holds_total") == 0
        with pytest.raises(ChildError, match=f"worker: TARRY_METRICS=127.0.0.1:{port} cannot be listened on"):
            await stage.start_worker(TARRY_METRICS=f"127.0.0.1:{port}")


async def test_reruns_of_a_tool_that_must_not_run_twice_stand_at_0_before_there_is_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(**ANY_PORT)
        await (await stage.harness.conversation(tmp_path.name).submit("nest")).wait()
        found = await scrape(worker.log)

    of_inner = [one for one in found.samples if one.name == "tarry_tool_runs_total" and one.labels["tool"] == "inner"]
    assert {one.labels["rerun"]: one.value for one in of_inner} == {"true": 0, "false": 1}
    # They are of one counter, or the first rerun would be a new one that begins at 1.
    rerun, first = ({**one.labels, "rerun": ""} for one in of_inner)
    assert rerun == first
