# Messages wait in an agent's mailbox, whatever happens to workers, until its parent starts a turn with all of them.
# One that is too large is refused at once, and nothing is ever dropped for another.
#
#     .venv/bin/python examples/22_mailbox.py

from __future__ import annotations

import asyncio

from tarry import App, Conversation
from tarry.models import ModelRequest
from tarry.subagents import AgentDefinition, Snapshot, subagents
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, calls, say


def send(message: str) -> Call:
    return call("send_message", agent="clerk", message=message)


def tell(request: ModelRequest) -> Reply:
    """What the newest call brought."""
    return say(request.messages[-1].text)


def count(request: ModelRequest) -> Reply:
    """The clerk's answer: how many lines its newest input has."""
    lines = [line for line in request.messages[-1].text.splitlines() if line]
    return say(f"{len(lines)} lines: {', '.join(lines)}")


root = ScriptedModel(
    [
        call("subagent", agent="clerk", prompt="Count what I send you.", task_name="clerk"),
        call("wait_agent"),
        calls(send("one apple")),  # one after the other, where their order counts
        calls(send("two pears")),
        calls(send("x" * 131_073)),
        tell,
        call("followup_task", agent="clerk", message="three plums"),
        call("wait_agent"),
        tell,
    ]
)
clerk = AgentDefinition(name="clerk", description="counts", prompt="You count lines.", model="clerk")
app = App(
    model=root,
    models={"clerk": ScriptedModel([count] * 3, "clerk")},
    extensions=[subagents(Snapshot(definitions=(clerk,)))],
)


async def main() -> None:
    async with Stage("examples.22_mailbox:app") as stage:
        worker = await stage.start_worker()
        conversation = stage.harness.conversation()
        print("refused:", (await (await conversation.submit("Tell the clerk.")).wait()).answer_text)
        await show(stage, conversation)
        await worker.kill()
        await stage.start_worker()
        print("a day later, under another worker:")
        print((await (await conversation.submit("What does it say?")).wait()).answer_text)
        await show(stage, conversation)


async def show(stage: Stage, conversation: Conversation) -> None:
    """The clerk, from outside."""
    [row] = (await (await stage.harness.agents(conversation.id)).list()).agents
    print(f"{row.path} {row.state} pending={row.pending} turns={row.turns}")


if __name__ == "__main__":
    asyncio.run(main())
