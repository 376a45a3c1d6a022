"""What a worker makes of OpenTelemetry's variables before it sends anything (spec §24.1)."""

from __future__ import annotations

import sys

import pytest

from tarry.seeing.tracing import begin_tracing
from tarry.settings import SettingsError

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize("exporter", ["otlp,console", "console", "zipkin", "none,otlp"])
def test_another_exporter_than_otlp_is_refused_in_one_line_that_says_what_there_is(exporter: str) -> None:
    with pytest.raises(SettingsError) as refused:
        begin_tracing({**COLLECTOR, "OTEL_TRACES_EXPORTER": exporter}, "worker")

    assert str(refused.value) == f"OTEL_TRACES_EXPORTER={exporter!r} is refused: set it to 'otlp', or to 'none'"


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_EXPORTER": "console"},
        {**COLLECTOR, "OTEL_TRACES_EXPORTER": "none"},
        {**COLLECTOR, "OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_begun_where_no_collector_is_named_or_tracing_is_off(variables: dict[str, str]) -> None:
    begin_tracing(variables, "worker")()


@pytest.mark.parametrize("missing", ["opentelemetry.sdk.trace.export", "opentelemetry.exporter.otlp.proto.http"])
def test_where_the_exporter_over_http_is_not_installed_it_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)  # as where only the one over gRPC is

    with pytest.raises(SettingsError, match=r"install tarry\[otel\]"):
        begin_tracing(COLLECTOR, "worker")
