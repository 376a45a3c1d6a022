"""One input to a conversation, and all that became of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tarry.client import Submission
from tarry.client.conversation import Conversation
from tarry.core.messages import ToolMessage
from tarry.core.transcript import Entry, ToolFacts
from tests.support.stage import kinds
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Answer:
    """How an input ended, and the whole transcript by then."""

    end: str
    text: str | None
    detail: str
    entries: list[Entry]

    @property
    def kinds(self) -> list[str]:
        """The kind of each entry that is none of the prompt."""
        return kinds(self.entries)

    @property
    def results(self) -> list[ToolMessage]:
        """The result of each call, in order."""
        return [entry.message for entry in self.entries if isinstance(entry.message, ToolMessage)]

    @property
    def texts(self) -> list[str]:
        """What the model reads of each result."""
        return [result.text for result in self.results]

    @property
    def facts(self) -> list[ToolFacts]:
        """What is recorded beside each result."""
        return [entry.tool for entry in self.entries if entry.tool is not None]

    @property
    def codes(self) -> list[str]:
        """How each call ended."""
        return [facts.code for facts in self.facts]

    @property
    def notes(self) -> list[str]:
        """What was noted for people."""
        return [entry.note for entry in self.entries if entry.kind == "note"]


async def ask(conversation: Conversation, content: str = "go") -> Answer:
    """Submit `content` and wait for its end."""
    return await answer_to(conversation, await conversation.submit(content))


async def answer_to(conversation: Conversation, submission: Submission) -> Answer:
    """Wait for the end of a submission."""
    async with asyncio.timeout(PATIENCE):
        settled = await submission.wait()
    return Answer(
        end=" ".join(part for part in (settled.status, settled.reason) if part),
        text=settled.answer_text,
        detail=settled.detail,
        entries=await conversation.transcript(),
    )
