"""The metrics of ours: each by its name, its labels and what it means (docs/observability.md, spec §24.5).

Counters of what workflows decide go through their own meter, which counts nothing in a replay. No label holds an id: a
label's values are names that an application declares, or words that stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from temporalio.common import MetricMeter

from tarry.core.messages import Usage
from tarry.core.protocol import DURABLE_TASK, GENERATION, TOOL_CALL, TOOL_RUN

KINDS = {GENERATION: "run", TOOL_CALL: "call", DURABLE_TASK: "task"}
"""What a workflow is, by its type, in a label."""

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Of every histogram, in seconds."""


@dataclass(frozen=True)
class Metric:
    """A metric; a counter's name ends with `_total`, and whatever is in seconds has a name that says so."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


RUNS = Metric("tarry_runs_total", "counter", "Runs that ended.", ("outcome",))
MODEL_REQUESTS = Metric(
    "tarry_model_requests_total", "counter", "Requests to models, by what came of them.", ("model", "outcome")
)
MODEL_RETRIES = Metric("tarry_model_retries_total", "counter", "Requests made again after a pause.", ("model",))
TOKENS = Metric("tarry_tokens_total", "counter", "Tokens, as providers count them.", ("model", "type"))
COST = Metric("tarry_cost_microdollars_total", "counter", "Millionths of a dollar, as far as known.", ("model",))
COMPACTIONS = Metric("tarry_compactions_total", "counter", "Summaries that were asked for.", ("outcome",))
CALLS = Metric("tarry_calls_total", "counter", "Calls that have their result.", ("tool", "replay", "outcome"))
TASKS = Metric("tarry_tasks_total", "counter", "Durable tasks that ended.", ("task", "outcome"))
TOOL_RUNS = Metric("tarry_tool_runs_total", "counter", "Runs of code that began.", ("tool", "replay", "rerun"))
PARKS = Metric("tarry_parks_total", "counter", "Parks that began.", ("kind", "state"))
WAKES = Metric("tarry_wakes_total", "counter", "Parks that ended.", ("kind", "reason"))
WAKE_DELAY = Metric(
    "tarry_wake_delay_seconds", "histogram", "From a deadline to where a worker saw that it had passed.", ("kind",)
)
HOLDS = Metric("tarry_holds_total", "counter", "Work that was given up until somebody retries it.", ("kind",))
WORKERS_LOST = Metric("tarry_workers_lost_total", "counter", "Runs whose worker vanished under them.", ("kind",))
_DELIVERIES = "Deliveries to tasks, by what became of them, repeats of one counted once."
DELIVERIES = Metric("tarry_deliveries_total", "counter", _DELIVERIES, ("answer",))
PERMIT_WAIT = Metric("tarry_permit_wait_seconds", "histogram", "How long runs of agents waited to go on after a rest.")
STORE_ERRORS = Metric("tarry_store_errors_total", "counter", "Failures of the store.", ("operation",))
WORKER_METRICS = (
    *(RUNS, MODEL_REQUESTS, MODEL_RETRIES, TOKENS, COST, COMPACTIONS, CALLS, TASKS, TOOL_RUNS, PARKS, WAKES),
    *(WAKE_DELAY, HOLDS, WORKERS_LOST, DELIVERIES, PERMIT_WAIT, STORE_ERRORS),
)

WEBHOOKS = Metric("tarry_webhooks_total", "counter", "Requests to the gateway's doors.", ("source", "answer"))

PARKED = Metric("tarry_parked", "gauge", "Work that is parked.", ("kind", "state"))
PARKED_OLDEST = Metric(
    "tarry_parked_oldest_seconds", "gauge", "For how long the oldest of it is parked.", ("kind", "state")
)
HELD = Metric("tarry_held", "gauge", "Work that waits for `tarry retry`.", ("kind",))
OVERDUE = Metric("tarry_overdue", "gauge", "Parked work whose deadline has passed.")
OVERDUE_OLDEST = Metric("tarry_overdue_oldest_seconds", "gauge", "For how long the first of these deadlines has.")
QUESTIONS = Metric("tarry_questions", "gauge", "Questions that nobody has answered.")
QUESTIONS_OLDEST = Metric("tarry_questions_oldest_seconds", "gauge", "For how long the oldest of them waits.")
RUNS_OPEN = Metric("tarry_runs_open", "gauge", "Runs that have not ended.")
BACKLOG = Metric("tarry_backlog", "gauge", "Tasks that wait for a worker.", ("type", "worker"))
POLLERS = Metric(
    "tarry_pollers",
    "gauge",
    "Pollers of workers that are given work, heard of in the last minutes.",
    ("type", "worker"),
)
LOOKED_AT = Metric("tarry_looked_at_seconds", "gauge", "Unix time of the newest look that succeeded.")
LOOK_METRICS = (
    *(PARKED, PARKED_OLDEST, HELD, OVERDUE, OVERDUE_OLDEST, QUESTIONS, QUESTIONS_OLDEST),
    *(RUNS_OPEN, BACKLOG, POLLERS, LOOKED_AT),
)

SCALED = Metric("tarry_scale_workers", "gauge", "Workers of a supervisor that serve.")
STARTS = Metric("tarry_scale_starts_total", "counter", "Workers that a supervisor started.", ("cause",))
DEATHS = Metric("tarry_scale_deaths_total", "counter", "Workers of a supervisor that died.")
WAKE_UP = Metric(
    "tarry_scale_wake_up_seconds", "histogram", "From the cause of a start to the first workflow.", ("cause",)
)
SCALE_METRICS = (SCALED, STARTS, DEATHS, WAKE_UP)

METRICS = (*WORKER_METRICS, WEBHOOKS, *LOOK_METRICS, *SCALE_METRICS)
"""All of them; besides, every process has those of Temporal's SDK, `temporal_*`."""


def count(meter: MetricMeter, metric: Metric, /, **labels: str) -> None:
    """One more."""
    add(meter, metric, 1, **labels)


def add(meter: MetricMeter, metric: Metric, number: int, /, **labels: str) -> None:
    """Add to a counter."""
    _check(metric, labels)
    meter.create_counter(metric.name, metric.help).add(number, labels)


def observe(meter: MetricMeter, metric: Metric, seconds: float, /, **labels: str) -> None:
    """Add to a histogram; less than none counts as none."""
    _check(metric, labels)
    meter.create_histogram_float(metric.name, metric.help, "s").record(max(0.0, seconds), labels)


def show(meter: MetricMeter, metric: Metric, value: float, /, **labels: str) -> None:
    """Set a gauge."""
    _check(metric, labels)
    meter.create_gauge_float(metric.name, metric.help).set(value, labels)


def spent(meter: MetricMeter, model: str, usage: Usage) -> None:
    """Count what a request took. Cached tokens are among the input's, as in all that we tell of usage."""
    for kind, number in _kinds(usage):
        if number:
            add(meter, TOKENS, number, model=model, type=kind)
    if usage.cost:
        add(meter, COST, round(usage.cost * 1_000_000), model=model)


def begin_series(meter: MetricMeter, namespace: str, task_queue: str, tools: Sequence[tuple[str, str, str]]) -> None:
    """Let the counters that somebody is woken for begin at 0: of one that begins at 1 nobody sees that it grew.

    `tools`: names, replay policies and the queues of their runs. The other labels are those that the SDK gives to what
    workflows and activities count.
    """
    for workflow_type, kind in KINDS.items():
        own = meter.with_additional_attributes(
            {"namespace": namespace, "task_queue": task_queue, "workflow_type": workflow_type}
        )
        add(own, HOLDS, 0, kind=kind)
        add(own, WORKERS_LOST, 0, kind="request" if kind == "run" else kind)
        if kind == "call":
            for tool, replay, _ in tools:
                add(own, CALLS, 0, tool=tool, replay=replay, outcome="interrupted")
    for tool, replay, queue in tools:
        if replay == "unsafe":
            own = meter.with_additional_attributes(
                {"namespace": namespace, "task_queue": queue, "activity_type": TOOL_RUN}
            )
            add(own, TOOL_RUNS, 0, tool=tool, replay=replay, rerun="true")


def _kinds(usage: Usage) -> Iterator[tuple[str, int]]:
    yield "input", usage.input_tokens
    yield "output", usage.output_tokens
    yield "cached", usage.cached_tokens


def _check(metric: Metric, labels: dict[str, str]) -> None:
    assert tuple(sorted(labels)) == tuple(sorted(metric.labels)), (metric.name, labels)
