"""Whether this process sends spans, and where to: OpenTelemetry's own variables say it (spec §24.1).

Nothing is sent, and nothing of the SDK is imported, where none of them names a collector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opentelemetry import trace

from tarry.settings import SettingsError

if TYPE_CHECKING:
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def begin_tracing(environment: Mapping[str, str], process: str) -> Callable[[], None]:
    """Send the spans of this process to the collector that `environment` names; without one do nothing.

    Call it once, before anything connects. `process` says in the spans what sends them. What it returns sends what is
    left, and ends it; a collector that is away is waited for as `OTEL_BSP_EXPORT_TIMEOUT` says.

    Raises:
        SettingsError: a collector is named, and the packages of `tarry[otel]` are missing or another protocol is asked.
    """
    if not _is_on(environment):
        return lambda: None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise SettingsError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} is refused: spans are sent by {_PROTOCOL}")
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter") is None:
        raise SettingsError("OTEL_EXPORTER_OTLP_ENDPOINT is set, and tracing is not installed: install tarry[otel]")
    return _begin(environment, process)


def _is_on(environment: Mapping[str, str]) -> bool:
    is_named = any(environment.get(name) for name in _ENDPOINTS)
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return is_named and not is_disabled and environment.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"


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
    return provider.shutdown


def plugins() -> list[OpenTelemetryPlugin]:
    """What a client carries the trace of its caller on with; none in a process that has no tracer provider."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

    return [OpenTelemetryPlugin()]
