"""Whether this process sends spans, and where to: OpenTelemetry's own variables say it (spec §24.1).

Nothing is sent, and nothing of the SDK is imported, where none of them names a collector.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry import trace

from tarry.seeing.headers import HeaderGuard
from tarry.settings import SettingsError

if TYPE_CHECKING:
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_LAST_SENDING = 2.0
"""Seconds in which a process that leaves sends what is left."""


def begin_tracing(environment: Mapping[str, str], process: str) -> Callable[[], None]:
    """Send the spans of this process to the collector that `environment` names; without one do nothing.

    Call it once, before anything connects. `process` says in the spans what sends them. What it returns sends what is
    left, and ends it, within two seconds; nothing may be traced after it.

    Raises:
        SettingsError: a collector is named, and the packages of `tarry[otel]` are missing, or another exporter or
            protocol is asked for.
    """
    if not _is_on(environment):
        return lambda: None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise SettingsError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} is refused: spans are sent by {_PROTOCOL}")
    try:
        return _begin(environment, process)
    except ModuleNotFoundError as error:  # all of it, or the exporter over HTTP where there is another one
        text = "OTEL_EXPORTER_OTLP_ENDPOINT is set, and tracing is not installed: install tarry[otel]"
        raise SettingsError(text) from error


def _is_on(environment: Mapping[str, str]) -> bool:
    is_named = any(environment.get(name) for name in _ENDPOINTS)
    if not is_named or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter not in ("otlp", "none"):
        raise SettingsError(f"OTEL_TRACES_EXPORTER={exporter!r} is refused: set it to 'otlp', or to 'none'")
    return exporter == "otlp"


def _begin(environment: Mapping[str, str], process: str) -> Callable[[], None]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from temporalio.contrib.opentelemetry import create_tracer_provider

    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "tarry"}
    # Ended by whoever began it: processes of ours leave without the interpreter's own end.
    provider = create_tracer_provider(
        resource=Resource.create({**named, "tarry.process": process}), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return partial(_end, provider.shutdown)


def _end(shutdown: Callable[[], None]) -> None:
    # A collector that is away is tried for long, and the process has seconds to leave.
    ending = threading.Thread(target=shutdown, daemon=True)
    ending.start()
    ending.join(_LAST_SENDING)


def plugins() -> list[OpenTelemetryPlugin]:
    """What a client carries the trace of its caller on with; none in a process that has no tracer provider."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

    plugin = OpenTelemetryPlugin()
    assert isinstance(plugin.interceptors, Sequence)
    plugin.interceptors = [HeaderGuard(), *plugin.interceptors]
    return [plugin]
