"""What tests of forks look at: what is said in a conversation, and what stands in the store."""

from __future__ import annotations

from pathlib import Path

from tarry import ToolApi
from tarry.client import Conversation


async def texts(conversation: Conversation) -> list[str]:
    """What was said, by whomever."""
    return [entry.message.text for entry in await conversation.transcript() if entry.message is not None]


def blobs(store: Path) -> set[str]:
    """What stands in the store."""
    return {str(file.relative_to(store)) for file in store.rglob("*") if file.is_file()}


async def nothing(api: ToolApi) -> None:
    """A tool that does nothing."""
