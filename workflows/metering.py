"""What workflows count, when it is decided; nothing is counted in a replay (spec §24.6)."""

from __future__ import annotations

from datetime import datetime, timedelta

from temporalio import workflow

from signals.parking import Park, Wake
from tarry.core import run as machine
from tarry.core.compaction_protocol import NoSummary, Summary
from tarry.core.protocol import ModelFailure
from tarry.seeing import metrics
from tarry.seeing.metrics import Metric


def count(metric: Metric, /, **labels: str) -> None:
    """One more."""
    metrics.count(workflow.metric_meter(), metric, **labels)


def kind() -> str:
    """What this workflow is, in a label."""
    own = workflow.info().workflow_type
    return metrics.KINDS.get(own, own)


def parked(state: str) -> None:
    """A park began."""
    count(metrics.PARKS, kind=kind(), state=state)


def woke(park: Park, wake: Wake | None, why: str, now: datetime) -> None:
    """It ended; by a deadline some time after that."""
    count(metrics.WAKES, kind=kind(), reason=why)
    if wake is not None and wake.reason in ("time", "expired") and park.until is not None:
        late = (now - park.until).total_seconds()
        metrics.observe(workflow.metric_meter(), metrics.WAKE_DELAY, late, kind=kind())


def waited_for_permit(span: timedelta) -> None:
    """A run of an agent, or a call of it that was woken, waited to go on."""
    metrics.observe(workflow.metric_meter(), metrics.PERMIT_WAIT, span.total_seconds())


def model_request(event: machine.Event, model: str) -> None:
    """What came of a request to `model`, the one that was asked before where this brought no word of it."""
    match event:
        case machine.Responded(turn=turn):
            _request(turn.model, "ok")
            metrics.spent(workflow.metric_meter(), turn.model, turn.usage)
        case machine.Failed(failure=ModelFailure() as failure):
            _request(failure.model or model, failure.error)
            if failure.usage is not None:
                metrics.spent(workflow.metric_meter(), failure.model, failure.usage)
        case machine.WorkerLost():
            count(metrics.WORKERS_LOST, kind="request")
            _request(model, "lost")
        case machine.WorkerStopped():
            _request(model, "given_back")
        case machine.Full():
            _request(model, "not_sent")
        case _:
            pass


def summary_request(answer: Summary | NoSummary | machine.Event) -> None:
    """What came of a request for a summary; hooks may have answered it without a model."""
    if not isinstance(answer, Summary | NoSummary):
        model_request(answer, "")
    elif answer.model:
        _request(answer.model, "ok")
        metrics.spent(workflow.metric_meter(), answer.model, answer.usage)


def _request(model: str, outcome: str) -> None:
    count(metrics.MODEL_REQUESTS, model=model, outcome=outcome)
