"""What a supervisor counts of its workers: it hears what it tells (spec §24.7)."""

from __future__ import annotations

from typing import Any

from temporalio.common import MetricMeter

from tarry.seeing import metrics
from workers.supervised import Tell


def counting(tell: Tell, meter: MetricMeter) -> Tell:
    """`tell`, with every event counted."""
    serving: set[int] = set()
    metrics.show(meter, metrics.SCALED, 0)
    metrics.add(meter, metrics.DEATHS, 0)

    def told(event: str, **facts: Any) -> None:
        tell(event, **facts)
        match event:
            case "started":
                metrics.count(meter, metrics.STARTS, cause=facts["cause"])
            case "serving":
                serving.add(facts["worker"])
            case "working":
                metrics.observe(meter, metrics.WAKE_UP, facts["seconds"]["working"], cause=facts["cause"])
            case "died":
                metrics.count(meter, metrics.DEATHS)
                serving.discard(facts["worker"])
            case "stopped":
                serving.discard(facts["worker"])
        metrics.show(meter, metrics.SCALED, len(serving))

    return told
