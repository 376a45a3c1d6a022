# The same crash under three declarations: the worker dies after a ticket was opened and before the result is kept.
# Not run again; run again; run again with a key by which the tracker knows the repeat.
#
#     .venv/bin/python examples/03_three_replay_policies.py

from __future__ import annotations

import asyncio
import os
import signal

import httpx

from tarry import App, Extension, ToolApi, tool
from tarry.core.messages import ToolMessage
from tarry.demo.tracker import tickets_at, tracker
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, say


@tool
def open_default(title: str, api: ToolApi) -> str:
    """Open a ticket; cut off, it is not run again."""
    return open_ticket(title, api, {})


@tool(replay="safe")
def open_safe(title: str, api: ToolApi) -> str:
    """Open a ticket; cut off, it is run again."""
    return open_ticket(title, api, {})


@tool(replay="safe")
def open_keyed(title: str, api: ToolApi) -> str:
    """Open a ticket; cut off, it is run again, with the same key."""
    return open_ticket(title, api, {"Idempotency-Key": api.idempotency_key})


def open_ticket(title: str, api: ToolApi, headers: dict[str, str]) -> str:
    url = f"{os.environ['TRACKER']}/tickets"
    ticket = httpx.post(url, json={"title": title}, headers=headers, trust_env=False).json()
    if api.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # the ticket is open, and nobody but the tracker knows
    return f"Opened {ticket['id']}"


def choose(request: ModelRequest) -> Call:
    policy = request.messages[-1].text
    return call(f"open_{policy}", title=policy)


def report(request: ModelRequest) -> Reply:
    result = request.messages[-1]
    return say("It was interrupted." if isinstance(result, ToolMessage) and result.is_error else result.text)


app = App(
    model=ScriptedModel([choose, report]),
    extensions=[Extension("tickets", [open_default, open_safe, open_keyed])],
)


async def main() -> None:
    async with Stage("examples.03_three_replay_policies:app") as stage:
        outside = tracker(stage.folder / "tickets.json", log=stage.folder / "tracker.log", environment=os.environ)
        async with outside:
            worker = await stage.start_worker(TRACKER=outside.ready_line)
            for policy in ("default", "safe", "keyed"):
                conversation = stage.harness.conversation()
                submission = await conversation.submit(policy)
                await worker.wait()
                worker = await stage.start_worker(TRACKER=outside.ready_line)
                settled = await submission.wait()
                opened = [ticket.id for ticket in await tickets_at(outside.ready_line) if ticket.title == policy]
                print(f"{policy + ':':8} tickets {', '.join(opened)}; the agent says: {settled.answer_text}")


if __name__ == "__main__":
    asyncio.run(main())
