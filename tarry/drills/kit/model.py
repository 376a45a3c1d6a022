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
IN_THE_END = "answered after a result"


class HoldingModel:
    """Plays its script anew for each input; a text streams in two halves."""

    name = "drill/1"

    def __init__(self, *steps: Step) -> None:
        self._script = ScriptedModel.for_each_input(steps)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """The script's answer."""
        is_report = isinstance(request.messages[-1], ToolMessage)
        await async_stop_at(AFTER_RESULT if is_report else REQUEST, request.session_id)
        response = await self._script.respond(request, lambda _: None)
        text = response.message.text
        if text:
            on_text(text[: len(text) // 2])
            await async_stop_at(MID_STREAM, request.session_id)
            on_text(text[len(text) // 2 :])
        await async_stop_at(IN_THE_END if is_report else ANSWERED, request.session_id)
        return response
