"""A stand-in for an OpenTelemetry collector: takes spans by OTLP over HTTP, as protobuf, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class Seen:
    """A span that came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    status: str
    attributes: dict[str, Any]
    process: dict[str, Any]
    links: list[str]


@dataclass
class Collector:
    """Where spans are sent to. `again`: those that came twice, by their ids; `spans` has the first of each."""

    url: str
    spans: list[Seen] = field(default_factory=list)
    again: list[Seen] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with that is to send its spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def take(self, spans: list[Seen]) -> None:
        """Spans have come."""
        for span in spans:
            (self.again if span.span_id in self._known else self.spans).append(span)
            self._known.add(span.span_id)

    def of(self, name: str) -> list[Seen]:
        """The spans of that name."""
        return [one for one in self.spans if one.name == name]

    def trees(self) -> list[str]:
        """Each trace as a text tree of names, children in the order in which they began; roots may miss a parent."""
        known = {one.span_id for one in self.spans}
        roots = [one for one in self.spans if one.parent_id not in known]
        return ["\n".join(self._lines(root, 0)) for root in sorted(roots, key=lambda one: one.began)]

    def _lines(self, span: Seen, depth: int) -> Iterator[str]:
        yield "  " * depth + span.name
        children = [one for one in self.spans if one.parent_id == span.span_id and one.trace_id == span.trace_id]
        for child in sorted(children, key=lambda one: (one.began, one.name)):
            yield from self._lines(child, depth + 1)


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            collector.bodies.append(body)
            collector.take(_decoded(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _decoded(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Seen(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            began=span.start_time_unix_nano,
            ended=span.end_time_unix_nano,
            status=("unset", "ok", "error")[span.status.code],
            attributes={one.key: _value(one.value) for one in span.attributes},
            process={one.key: _value(one.value) for one in resource.resource.attributes},
            links=[link.trace_id.hex() for link in span.links],
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
