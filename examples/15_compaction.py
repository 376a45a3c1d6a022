# A context that fills its model's window is compacted by itself, and once by hand; the transcript stays whole.
#
#     .venv/bin/python examples/15_compaction.py

from __future__ import annotations

import asyncio

from tarry import App, Compacting, Extension, Hooks, OwnSummary
from tarry.models import ModelInfo, ModelRequest, OwnThresholds
from tarry.testing import Reply, ScriptedModel, Stage, say

PAGE = "word " * 200


def answer(request: ModelRequest) -> Reply:
    """Tell how much it was given to read, and add a page to it."""
    return say(f"I read {len(request.messages)} messages. {PAGE}")


def summary(request: ModelRequest) -> Reply:
    """The model's part of a compaction: a request of its own, without tools, with the transcript as its text."""
    return say(f"Goal: read pages. {request.messages[0].text.count('[User]')} of the user's inputs are in here.")


def by_hand(told: Compacting) -> OwnSummary | None:
    """A hook may decline, or write the summary itself; here it does when a person asked."""
    return OwnSummary(f"What matters of {told.before} tokens: {told.instructions}") if told.reason == "manual" else None


# A small window, so that it is soon full: 1,200 tokens, of which a request leaves 300 free.
sizes = OwnThresholds(reserve_tokens=300, keep_recent_tokens=200, background_tokens=0)
app = App(
    model=ScriptedModel.for_each_input(
        [answer], summary=[summary], info=ModelInfo(context_window=1_200, compaction=sizes)
    ),
    extensions=[Extension("notes", hooks=Hooks(before_compact=by_hand))],
)


async def main() -> None:
    async with Stage("examples.15_compaction:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        for number in range(1, 7):
            settled = await (await conversation.submit(f"page {number}")).wait()
            print((settled.answer_text or "").split(".")[0])

        compaction = await conversation.compact("the pages' numbers")
        ended = await compaction.wait()
        print(f"by hand: {ended.status}, {ended.before} tokens have become {ended.after}")

        for entry in await conversation.transcript():
            text = entry.message.text if entry.message else entry.note
            if entry.kind == "compaction":
                text = text.split("<summary>\n")[1].removesuffix("\n</summary>")
            print(f"  {entry.kind}: {text.split(' word')[0]}")


if __name__ == "__main__":
    asyncio.run(main())
