# Two agents work beside the one that started them, each in a conversation of its own; it goes on meanwhile, then waits.
# Their worker is killed while both are at work: another one goes on with all three, and each end is read once.
#
#     .venv/bin/python examples/21_background_agents.py

from __future__ import annotations

import asyncio
import time

from tarry import App, Conversation, Extension, WorkItem, tool
from tarry.models import ModelRequest
from tarry.subagents import AgentDefinition, Snapshot, SubagentSettings, subagents
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, calls, eventually, say

FOUND = {"scout": "parse() fails for an empty file.", "reviewer": "The change has no test for an empty file."}


@tool(replay="safe")
def look(at: str) -> str:
    """Look at something, which takes a while."""
    time.sleep(1)
    return f"looked at {at}"


def go_on(request: ModelRequest) -> Reply | Call:
    """Wait until both have ended."""
    told = "\n".join(message.text for message in request.messages if message.role == "tool")
    if told.count("ended its turn") < len(FOUND):
        return call("wait_agent", timeout_seconds=120)
    return say(" ".join(text for text in FOUND.values() if text in told))


start = calls(*(call("subagent", agent=name, prompt="Look at the change.", task_name=name) for name in FOUND))
root = ScriptedModel([start, call("look", at="the log"), *([go_on] * 4)])
agents = {name: ScriptedModel([call("look", at="the change"), say(text)], name) for name, text in FOUND.items()}
catalogue = Snapshot(
    definitions=tuple(
        AgentDefinition(name=name, description=f"a {name}", prompt="You look closely.", model=name) for name in FOUND
    ),
    settings=SubagentSettings(inherit_extensions=True),
)
app = App(model=root, models=agents, extensions=[Extension("desk", [look]), subagents(catalogue)])


async def main() -> None:
    async with Stage("examples.21_background_agents:app") as stage:
        worker = await stage.start_worker()
        conversation = stage.harness.conversation()
        submission = await conversation.submit("Why do the tests fail?")
        print("at work:", ", ".join(await at_work(stage)))
        await worker.kill()
        print("worker 1 was killed")
        await stage.start_worker()
        print((await submission.wait()).answer_text)
        await show(stage, conversation)


async def at_work(stage: Stage) -> list[str]:
    """The agents that look at something, once both do."""

    async def looking() -> list[WorkItem]:
        work = [item async for item in stage.harness.work()]
        return [item for item in work if item.tool == "look" and item.conversation_id.startswith("agent-")]

    await eventually(looking, lambda found: len(found) == len(FOUND))
    return sorted(FOUND)


async def show(stage: Stage, conversation: Conversation) -> None:
    """What there is below the conversation, as `list_agents` tells the model."""
    for row in (await (await stage.harness.agents(conversation.id)).list()).agents:
        print(f"{row.path} {row.state} turns={row.turns} updates={row.updates}")
    results = [entry.message.text for entry in await conversation.transcript() if entry.message and entry.tool]
    print("read:", {name: sum(text in result for result in results) for name, text in FOUND.items()})


if __name__ == "__main__":
    asyncio.run(main())
