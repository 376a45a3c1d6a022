"""Where a process serves its metrics (spec §24.5): ours and those of Temporal's SDK at one address."""

from __future__ import annotations

import logging
import socket
from contextlib import closing

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from tarry.seeing.metrics import BUCKETS, METRICS
from tarry.settings import SettingsError

_TRIES_OF_ANY = 20


def begin_metrics(address: str | None) -> None:
    """Serve `GET /metrics` there, `host:port`, or at the first free port of `host:first-last`; None: nowhere.

    Call it once, before anything connects. Port 0 stands for any free one; which one it is stands in the log.

    Raises:
        SettingsError: none of them can be listened on.
    """
    if address is None:
        return
    host, _, ports = address.rpartition(":")
    first, _, last = ports.partition("-")
    problem = ""
    for port in _candidates(host, int(first), int(last or first)):
        try:
            Runtime.set_default(Runtime(telemetry=_telemetry(f"{host}:{port}")))
        except ValueError as error:
            problem = str(error)
        else:
            logging.getLogger("tarry.metrics").info("metrics at http://%s:%s/metrics", host, port)
            return
    raise SettingsError(f"TARRY_METRICS={address} cannot be listened on ({problem}): give a free port, or more of them")


def _candidates(host: str, first: int, last: int) -> list[int]:
    if first:
        return list(range(first, last + 1))
    return [_free_port(host) for _ in range(_TRIES_OF_ANY)]


def _free_port(host: str) -> int:
    with closing(socket.create_server((host.strip("[]"), 0))) as found:
        port: int = found.getsockname()[1]
        return port


def _telemetry(address: str) -> TelemetryConfig:
    buckets = {metric.name: BUCKETS for metric in METRICS if metric.kind == "histogram"}
    serving = PrometheusConfig(bind_address=address, durations_as_seconds=True, histogram_bucket_overrides=buckets)
    return TelemetryConfig(metrics=serving, attach_service_name=False)


def process_meter(**labels: str) -> MetricMeter:
    """The meter of this process, with these labels on all; nothing is counted where nothing is served."""
    meter = Runtime.default().metric_meter
    return meter.with_additional_attributes(labels) if labels else meter


def meter_of(client: Client, task_queue: str) -> MetricMeter:
    """The process's meter for what it does on a task queue."""
    return process_meter(namespace=client.namespace, task_queue=task_queue)
