"""`send_message` and `followup_task`: what is delivered starts nothing; what is started has all of it (spec §17.42)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tarry.api import ToolApi
from tarry.subagents.telling import Told, refusals_are_results
from tarry.tools import ToolResult, tool

Child = Annotated[str, Field(description="Path, such as /root/review or review, or id of an agent that you started")]


@tool(replay="safe")
@refusals_are_results
async def send_message(
    agent: Child, message: Annotated[str, Field(description="At most 131,072 characters")], api: ToolApi
) -> Told:
    """Put a message into the mailbox of an agent that you started. It is read in its next turn, which this starts not.

    Start that turn with followup_task. Await one message before the next where their order counts.
    """
    sent = await api.agents.send(agent, message)
    waiting = "1 message waits" if sent.pending == 1 else f"{sent.pending} messages wait"
    text = f"Message {sent.message_id} is in the mailbox of {sent.path}; {waiting} there for followup_task."
    return ToolResult(text, details=sent.model_dump(mode="json"))


@tool(replay="safe")
@refusals_are_results
async def followup_task(
    agent: Child,
    api: ToolApi,
    message: Annotated[str | None, Field(description="One more message, the last of them")] = None,
) -> Told:
    """Start one turn of an agent that you started, with all messages that wait in its mailbox.

    In a turn that is open it reads them. A message that comes later waits for the next one.
    """
    turn = await api.agents.follow_up(agent, message)
    how = {
        "running": "It runs.",
        "queued": "It waits for a free place among the agents that run.",
        "joined": "It was at work, and reads them in its turn.",
    }[turn.state]
    read = "1 message" if turn.messages == 1 else f"{turn.messages} messages"
    return ToolResult(f"{turn.path} has {read} to read. {how}", details=turn.model_dump(mode="json"))
