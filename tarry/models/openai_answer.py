"""What a stream has said so far: text, reasoning, calls, usage, and whether it is complete.

Only a reason to stop completes an answer; a connection that merely ends does not (spec §6.4).
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tarry.core.messages import AssistantMessage, StopReason, Usage
from tarry.core.text import clean_text
from tarry.models import ModelError, ModelResponse
from tarry.models.openai_calls import CallDrafts

OnText = Callable[[str], None]


class Wire(BaseModel):
    """The part of a provider's JSON that is read; the rest is ignored."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


WireShape = TypeVar("WireShape", bound=Wire)


def read(shape: type[WireShape], event: object) -> WireShape:
    """Read an event of the stream.

    Raises:
        ModelError: retryable, the event does not have this shape.
    """
    try:
        return shape.model_validate(event)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ModelError(f"a malformed chunk in the stream: {place}: {first['msg']}", "retryable") from None


class Answer(ABC):
    """One response in the making. A subclass knows the events of one API."""

    def __init__(self, on_text: OnText) -> None:
        self.calls = CallDrafts()
        self.usage = Usage()
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._stop: StopReason | None = None
        # Providers split a character between two events; each half alone would be a lone surrogate.
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    @abstractmethod
    def take(self, event: object) -> None:
        """Take the next event of the stream.

        Raises:
            ModelError: the event is malformed, or says that the response failed.
        """

    @property
    def text(self) -> str:
        """The text so far: exactly the pieces given to `on_text`."""
        return "".join(self._text)

    @property
    def is_complete(self) -> bool:
        """Whether the provider said why it stopped."""
        return self._stop is not None

    @property
    def told(self) -> Usage | None:
        """What the provider said of the usage; None: nothing yet."""
        return self.usage if self.usage != Usage() else None

    def say(self, piece: str) -> None:
        """Add text and pass it on, lone surrogates replaced."""
        self._publish(self._decoder.decode(piece.encode("utf-16-le", "surrogatepass")))

    def think(self, piece: str) -> None:
        """Add reasoning; it is never passed on."""
        self._reasoning.append(piece)

    def finish(self, stop: StopReason) -> None:
        """Complete the answer; the first reason counts."""
        if self._stop is None:
            self._publish(self._decoder.decode(b"", final=True))
            self._stop = stop

    def response(self) -> ModelResponse:
        """The response. A `stop` with calls is `tool_use`, whatever the provider called it.

        Raises:
            ModelError: retryable, the provider did not say why it stopped.
        """
        if self._stop is None:
            raise ModelError("the stream ended before the answer was complete", "retryable")
        calls = self.calls.requests()
        message = AssistantMessage(
            text=self.text,
            reasoning=clean_text("".join(self._reasoning)),
            calls=calls,
            stop="tool_use" if calls and self._stop == "stop" else self._stop,
        )
        return ModelResponse(message=message, usage=self.usage)

    def _publish(self, piece: str) -> None:
        if piece:
            self._text.append(piece)
            self._on_text(piece)
