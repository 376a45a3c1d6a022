"""The other side of the comparison: a bare workflow that does what a run of ours does, in one piece.

It imports only the SDK and the standard library: the sandbox imports this module anew for every workflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow

WORKFLOW = "bench.flat"
TASK_QUEUE = "bench-flat"

_LIMIT = timedelta(seconds=60)


@dataclass(frozen=True)
class Message:
    """What was said; by an assistant, maybe a call of the tool."""

    role: str
    text: str = ""
    call: str = ""


@workflow.defn(name=WORKFLOW)
class Flat:
    """One run: model, tool, model."""

    @workflow.run
    async def run(self, question: str) -> str:
        """The answer."""
        messages = [Message("user", question)]
        messages.append(await _ask(messages))
        found = await workflow.execute_activity(
            "tool", messages[-1].call, result_type=str, start_to_close_timeout=_LIMIT
        )
        messages.append(Message("tool", found))
        return (await _ask(messages)).text


async def _ask(messages: list[Message]) -> Message:
    said: Message = await workflow.execute_activity(
        "model", messages, result_type=Message, start_to_close_timeout=_LIMIT
    )
    return said
