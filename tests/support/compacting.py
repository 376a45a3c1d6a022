"""Conversations that are compacted: models with a window, and what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tarry.client import Conversation
from tarry.core.compaction_view import CompactionStatus
from tarry.models import ModelInfo, ModelRequest, ModelResponse
from tarry.testing import ScriptedModel, Step, say
from tarry.testing.steps import Fail, Reply, fail

ANSWER = "fine " * 100
"""125 tokens, as the scripted model counts."""
KEEP_LITTLE = {"keep_recent_tokens": 1}


def talker(
    *, window: int | None = None, asked: list[ModelRequest] | None = None, summary: Sequence[Step] = ()
) -> ScriptedModel:
    """Answers each input at some length; `window` is what it says it takes."""
    return ScriptedModel.for_each_input(
        [say(ANSWER)],
        on_request=None if asked is None else asked.append,
        summary=summary,
        info=ModelInfo(context_window=window),
    )


def refusing(limit: int, *, summary: Sequence[Step] = (), asked: list[ModelRequest] | None = None) -> ScriptedModel:
    """Answers at some length, and refuses a context of over `limit` characters, which nobody told anybody of."""

    def decide(request: ModelRequest) -> Reply | Fail:
        long = sum(len(message.text) for message in request.messages) > limit
        return fail("overflow", "the context is too long") if long else say(ANSWER)

    return ScriptedModel.for_each_input([decide], summary=summary, on_request=None if asked is None else asked.append)


async def talked(conversation: Conversation, *inputs: str) -> list[str]:
    """Submit one after the other; the reasons for which they were not answered, empty where they were."""
    return [(await (await conversation.submit(content)).wait()).reason for content in inputs]


class HeldSummaries:
    """A model whose summaries come only when they are let go; its turns come at once."""

    def __init__(self, inner: ScriptedModel) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()
        self.info = inner.info
        self.name = inner.name
        self._inner = inner

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        if request.purpose == "summary":
            self.asked.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return await self._inner.respond(request, on_text)


async def statuses(conversation: Conversation) -> list[CompactionStatus]:
    """Of the compactions of a conversation, oldest first."""
    return [view.status for view in (await conversation.view()).compactions]
