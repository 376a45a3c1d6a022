"""One question to a model over real HTTP, and its answer or its error."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tarry.core.messages import UserMessage
from tarry.models import ModelError, ModelRequest, ModelResponse
from tarry.models.openai import OpenAIModel
from tests.support.scripted_provider import ScriptedProvider

Api = Literal["chat", "responses"]
API_KEY = "sk-tarry-0123456789"
QUESTION = ModelRequest(messages=(UserMessage(text="What is open?"),), session_id="conv-1", idle_timeout=5.0)


async def ask(
    provider: ScriptedProvider,
    request: ModelRequest = QUESTION,
    *,
    api: Api = "chat",
    pieces: list[str] | None = None,
    **options: Any,
) -> ModelResponse:
    """Ask once; `pieces` collects what was streamed."""
    model = OpenAIModel("m", api=api, base_url=provider.base_url, api_key=API_KEY, **options)
    try:
        return await model.respond(request, (pieces if pieces is not None else []).append)
    finally:
        await model.aclose()


async def ask_in_vain(
    provider: ScriptedProvider, request: ModelRequest = QUESTION, *, api: Api = "chat", **options: Any
) -> ModelError:
    """Ask once and return the error that this must raise."""
    with pytest.raises(ModelError) as raised:
        await ask(provider, request, api=api, **options)
    return raised.value
