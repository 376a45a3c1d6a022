"""Replay every kept history in a process that traces; prints how many, and how many spans came of it."""

from __future__ import annotations

import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.enums.v1 import EventType
from temporalio.contrib.opentelemetry import create_tracer_provider

from tarry.seeing.tracing import plugins
from tests.replay import kept


async def replay_all(spans: InMemorySpanExporter) -> tuple[int, int]:
    """Every history of every scenario. What ends in the midst of a workflow task is no replay to its end."""
    replayer, replayed, sent = kept.replayer(plugins=plugins()), 0, 0
    for name in kept.names():
        for history in kept.read(name):
            await replayer.replay_workflow(history)
            replayed += 1
            if history.events[-1].event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                sent += len(spans.get_finished_spans())
            spans.clear()
    return replayed, sent


if __name__ == "__main__":
    spans = InMemorySpanExporter()
    provider = create_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    print(*asyncio.run(replay_all(spans)))
