"""A scripted model that holds at points: before its answer, in the middle of its text, and with its answer made."""

from __future__ import annotations

from collections.abc import Callable

from tarry.core.messages import ToolMessage
from tarry.drills.kit.points import async_stop_at
from tarry.models import ModelRequest, ModelResponse
from tarry.testing.scripted import ScriptedModel
from tarry.testing.steps import Step

REQUEST = "request"
AFTER_RESULT = "request after a result"
MID_STREAM = "mid-stream"
ANSWERED = "answered"


class HoldingModel:
    """Plays its script anew for each input; a text streams in two halves."""

    name = "drill/1"

    def __init__(self, *steps: Step) -> None:
        self._script = ScriptedModel.for_each_input(steps)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """The script's answer."""
        await async_stop_at(_next_request(request), request.session_id)
        response = await self._script.respond(request, lambda _: None)
        text = response.message.text
        if text:
            on_text(text[: len(text) // 2])
            await async_stop_at(MID_STREAM, request.session_id)
            on_text(text[len(text) // 2 :])
        await async_stop_at(ANSWERED, request.session_id)
        return response


def _next_request(request: ModelRequest) -> str:
    return AFTER_RESULT if isinstance(request.messages[-1], ToolMessage) else REQUEST
