"""What a supervisor counts is what it tells (spec §24.7)."""

from __future__ import annotations

from typing import Any

from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from tarry.seeing.metrics import SCALE_METRICS
from workers.supervisor_metrics import counting


def test_starts_deaths_and_wake_ups_are_counted_and_the_workers_that_serve_are_shown() -> None:
    buffer = MetricBuffer(1_000)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=buffer, attach_service_name=False))
    heard: list[str] = []
    tell = counting(lambda event, **_: heard.append(event), runtime.metric_meter)

    tell("ready", min=0, max=2)
    tell("started", worker=1, cause="poke")
    tell("serving", worker=1, pid=7)
    tell("working", worker=1, cause="poke", seconds={"working": 1.25})
    tell("started", worker=2, cause="growth")
    tell("serving", worker=2, pid=8)
    tell("died", worker=2, deaths=1)
    tell("stopped", worker=1, code=0)

    told: dict[str, list[tuple[Any, dict[str, Any]]]] = {metric.name: [] for metric in SCALE_METRICS}
    for update in buffer.retrieve_updates():
        if update.metric.name in told:
            told[update.metric.name].append((update.value, dict(update.attributes)))
    assert heard == ["ready", "started", "serving", "working", "started", "serving", "died", "stopped"]
    assert [value for value, _ in told["tarry_scale_workers"]] == [0, 0, 0, 1, 1, 1, 2, 1, 0]
    assert told["tarry_scale_starts_total"] == [(1, {"cause": "poke"}), (1, {"cause": "growth"})]
    assert [value for value, _ in told["tarry_scale_deaths_total"]] == [0, 1]
    assert told["tarry_scale_wake_up_seconds"] == [(1.25, {"cause": "poke"})]
