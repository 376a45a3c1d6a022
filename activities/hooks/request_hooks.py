"""Hooks around a request to a model: they run inside its activity, so that they cost no event (spec §13.6)."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from pydantic import ValidationError

from activities.calling import called
from activities.hooks.gates import limit
from activities.reports import Reports
from tarry.app import Registry
from tarry.core.protocol import ModelRequestInput
from tarry.hooks import RequestTold, ResponseTold
from tarry.models import ModelRequest, ModelResponse
from tarry.models.strict import InvalidRequest, check_request


class RequestHooks:
    """The hooks of one request. One that fails is reported, and changes nothing."""

    def __init__(self, registry: Registry, input: ModelRequestInput, reports: Reports) -> None:
        self._registry = registry
        self._input = input
        self._reports = reports

    async def before(self, request: ModelRequest) -> ModelRequest:
        """The request as the hooks want it, each given what those before it made; all that they change is messages."""
        hooks = [(name, one) for name, one in self._registry.hooks if one.before_request is not None]
        ends = time.monotonic() + limit("io" if any(one.io for _, one in hooks) else "quick")
        for name, one in hooks:
            assert one.before_request is not None
            told = RequestTold(
                conversation_id=self._input.conversation_id,
                generation_id=self._input.generation_id,
                turn=self._input.turn,
                instructions=request.instructions,
                messages=request.messages,
                tools=tuple(tool.name for tool in request.tools),
            )
            try:
                messages = await called(partial(one.before_request, told), ends)
                request = request if messages is None else _with(request, messages)
            except Exception as error:  # a hook is application code and may raise or return anything
                self._reports.add(f"hook before_request of {name}", error)
        return request

    async def after(self, ended: ModelResponse | Exception) -> None:
        """Tell all hooks how the request ended."""
        hooks = [(name, one) for name, one in self._registry.hooks if one.after_response is not None]
        ends = time.monotonic() + limit("io" if any(one.io for _, one in hooks) else "quick")
        response = ended if isinstance(ended, ModelResponse) else None
        told = ResponseTold(
            conversation_id=self._input.conversation_id,
            generation_id=self._input.generation_id,
            turn=self._input.turn,
            message=response.message if response else None,
            usage=response.usage if response else None,
            error=str(ended) if isinstance(ended, Exception) else "",
        )
        for name, one in hooks:
            assert one.after_response is not None
            try:
                await called(partial(one.after_response, told), ends)
            except Exception as error:  # as above
                self._reports.add(f"hook after_response of {name}", error)


def _with(request: ModelRequest, messages: Any) -> ModelRequest:
    """The request with other messages.

    Raises:
        ValueError: no strict provider would take it.
    """
    try:
        changed = ModelRequest.model_validate({**dict(request), "messages": tuple(messages)})
        check_request(changed)
    except (TypeError, ValidationError) as error:
        raise ValueError(f"what it returned is no list of messages: {error}") from None
    except InvalidRequest as error:
        raise ValueError(f"no provider takes what it returned: {error.reason}") from None
    return changed
