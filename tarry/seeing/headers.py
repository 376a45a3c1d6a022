"""A guard for the header that carries a trace: any shell can write one, and what no trace can be read from is left out.

The SDK reads it before our code runs, and what it cannot read would stop the workflow (spec §24.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import Interceptor as ClientInterceptor
from temporalio.converter import PayloadConverter
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

HEADER = "_tracer-data"
"""Its name, as the SDK gives it."""


class HeaderGuard(ClientInterceptor, Interceptor):
    """Stands before the SDK's own. A client has it, so that its workers do; to what a client sends it does nothing."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """For each workflow."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        input.headers = readable(input.headers)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        input.headers = readable(input.headers)
        await super().handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        input.headers = readable(input.headers)
        return await super().handle_query(input)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        input.headers = readable(input.headers)
        super().handle_update_validator(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        input.headers = readable(input.headers)
        return await super().handle_update_handler(input)


def readable(headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """The headers, without one of a trace that holds no texts by name."""
    if HEADER not in headers or _holds_texts(headers[HEADER]):
        return headers
    return {name: payload for name, payload in headers.items() if name != HEADER}


def _holds_texts(payload: Payload) -> bool:
    try:
        found: object = PayloadConverter.default.from_payload(payload)
    # Anything at all may come from outside, and an exception here would wedge the workflow.
    except Exception:
        return False
    return isinstance(found, dict) and all(isinstance(text, str) for pair in found.items() for text in pair)
