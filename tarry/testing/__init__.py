"""For tests of an application: a scripted model, the rules of a strict provider, and a stage with real processes."""

from __future__ import annotations

from tarry.models.strict import InvalidRequest, check_request
from tarry.testing.scripted import ScriptedModel, ScriptExhausted
from tarry.testing.stage import Stage
from tarry.testing.steps import Call, Fail, Reply, Step, call, calls, empty, fail, raw_call, say
from tarry.testing.waiting import eventually

__all__ = [
    "Call",
    "Fail",
    "InvalidRequest",
    "Reply",
    "ScriptExhausted",
    "ScriptedModel",
    "Stage",
    "Step",
    "call",
    "calls",
    "check_request",
    "empty",
    "eventually",
    "fail",
    "raw_call",
    "say",
]
