"""What becomes of a line that is still on its way when a person leaves a chat (docs/watching.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tarry.cli.chat_room import Room
from tarry.cli.chat_screen import Screen
from tarry.client import Conversation, Harness, NoSuchConversation

CTRL_D = "\x04"


class Slow:
    """A conversation that takes an input only after a while, as without a worker; nothing is there to be watched."""

    id = "slow"

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def submit(self, text: str, **_: object) -> SimpleNamespace:
        await asyncio.sleep(0.3)
        self.taken.append(text)
        return SimpleNamespace(view=None)

    async def watch(self) -> AsyncGenerator[None]:
        raise NoSuchConversation("nothing was said yet")
        yield


async def test_line_that_is_on_its_way_is_sent_before_the_chat_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    conversation = Slow()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(f"hello\rand more\r{CTRL_D}")
        await Screen(lambda tell: Room(cast("Harness", None), cast("Conversation", conversation), tell, "steer")).run()

    assert conversation.taken == ["hello", "and more"]
