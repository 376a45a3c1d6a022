"""Prompts that change over a conversation, and answers that must be data, played to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from tarry.app import App, Extension
from tarry.sections import PromptTold, Section
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.replay.scenarios import ask
from tests.replay.studio import Studio


class Number(BaseModel):
    n: int


@tool(replay="safe")
def look() -> str:
    """Look."""
    return "seen"


def failing(told: PromptTold) -> str:
    raise ValueError("no section today")


async def changed_prompt(studio: Studio) -> None:
    model = ScriptedModel.for_each_input([call("look"), say("fine")])
    first = App(model=model, extensions=[Extension("a", [look], sections=[Section("x", "One."), Section("y", "Two.")])])
    plain = ScriptedModel.for_each_input([say("fine")])
    other = App(model=plain, extensions=[Extension("a", sections=[Section("y", "Other."), Section("x", failing)])])
    async with studio.unserved(first) as (on, conversation):
        async with on.worker():
            await ask(conversation, "one")
        async with on.worker(other):
            await ask(conversation, "two")
            await (await conversation.reset("anew")).wait()
            await ask(conversation, "three")


async def output_sent_back(studio: Studio) -> None:
    steps = [say("one"), say('{"n": 1}'), say("two"), say("three")]
    async with studio.conversation(App(model=ScriptedModel(steps))) as (_, conversation):
        for content in ("first", "second"):
            await (await conversation.submit(content, output=Number)).wait()


PROMPT: dict[str, Callable[[Studio], Awaitable[None]]] = {
    "changed_prompt": changed_prompt,
    "output_sent_back": output_sent_back,
}
