"""Telling others of an outcome that is in history by now (spec §17.13)."""

from __future__ import annotations

import contextlib

from temporalio import workflow
from temporalio.exceptions import FailureError

from tarry.core.protocol import ToolOutcome
from workflows.task.watching import is_id


async def acknowledge(outcome: ToolOutcome) -> None:
    """Send the acknowledgements of an outcome, each until the server has taken it; who is over need not know."""
    for ack in outcome.acks:
        # Somebody with a shell may have written it, and a command that the server refuses would wedge the workflow.
        if is_id(ack.workflow_id) and is_id(ack.name):
            with contextlib.suppress(FailureError):
                await workflow.get_external_workflow_handle(ack.workflow_id).signal(ack.name, ack.value)
