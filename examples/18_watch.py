# Two clients watch one run: one draws the view as it changes, one follows events. Neither leaves an event in a history:
# a run that nobody watches has as many.
#
#     .venv/bin/python examples/18_watch.py

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tarry import App, Conversation, Extension, Harness, ToolApi, tool
from tarry.testing import ScriptedModel, Stage, call, say


@tool(replay="safe")
async def look(drawer: str, api: ToolApi) -> str:
    """Look into a drawer."""
    for layer in ("paper", "string", "keys"):
        api.output(f"{layer}\n")
        await asyncio.sleep(1.0)
    return f"The {drawer} drawer holds keys."


ANSWER = "They are in the third drawer, below the string."

app = App(
    model=ScriptedModel([call("look", drawer="third"), say(ANSWER, chunks=6, delay=0.3)]),
    extensions=[Extension("drawers", [look])],
)


async def draw(conversation: Conversation) -> list[str]:
    """What stood on the first client's screen, one after the other."""
    drawn: list[str] = []
    async with aclosing(conversation.watch()) as changes:
        async for change in changes:
            run = change.view.run
            if run is None:
                return drawn
            drawn += [f"{call.tool}: {line}" for call in run.calls for line in call.output.text.splitlines()]
            drawn += [run.message.text.text] if run.message is not None else []
    return drawn


async def follow(conversation: Conversation) -> list[str]:
    """The kinds of events that the second client heard, and the entries."""
    heard: list[str] = []
    async with aclosing(conversation.events()) as events:
        async for event in events:
            heard.append(event.type)
            if event.type == "entry_appended":
                heard.append(event.entry.kind)
            if event.type == "run_end":
                return heard
    return heard


async def events_of(harness: Harness, conversation: Conversation, run_id: str) -> int:
    """The events in the histories of a conversation and of its run."""
    handles = [harness.client.get_workflow_handle(one) for one in (conversation.id, run_id)]
    return sum([(await handle.describe()).history_length for handle in handles])


async def main() -> None:
    async with Stage("examples.18_watch:app") as stage:
        await stage.start_worker()
        watched, alone = stage.harness.conversation(), stage.harness.conversation()
        submission = await watched.submit("Where are my keys?")
        drawn, heard = await asyncio.gather(draw(watched), follow(watched))
        answer, other = await submission.wait(), await (await alone.submit("Where are my keys?")).wait()

        print("the first saw the tool at work:", any(line.startswith("look: ") for line in drawn))
        print(
            "... and the answer grow:", any(ANSWER.startswith(text) and 0 < len(text) < len(ANSWER) for text in drawn)
        )
        print("the second heard:", " ".join(kind for kind in heard if kind in ("tool_result", "turn_end", "run_end")))
        counts = [
            await events_of(stage.harness, watched, answer.generation_id),
            await events_of(stage.harness, alone, other.generation_id),
        ]
        print("events that watching added:", counts[0] - counts[1])


if __name__ == "__main__":
    asyncio.run(main())
