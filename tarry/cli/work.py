"""`tarry ps`, `tarry retry` and `tarry abort`: what is not over, letting it run again, and ending it.

None of them needs a worker.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tarry.cli import render
from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.client import Harness, WorkItem
from tarry.client.errors import reaching_server
from tarry.client.questions import find_paths
from tarry.client.workers import marked


def ps(
    held: Annotated[bool, typer.Option("--held", help="Only work that waits for `tarry retry`.")] = False,
    as_json: JsonOption = False,
) -> int:
    """List what is not over, newest first, and what parked work waits for."""
    return run_async(_ps(Output(as_json=as_json), held))


async def _ps(output: Output, held: bool) -> int:
    harness = await Harness.connect()
    items = await _with_paths(harness, [item async for item in harness.work(held_only=held)])
    items = with_conversation_states(await with_workers(harness, items))
    if output.as_json:
        output.json({"work": [item.model_dump(mode="json") for item in items]})
    elif items:
        output.table(render.work(items, datetime.now(UTC)))
    else:
        output.remark("nothing is held" if held else "nothing is open")
    return ExitCode.DONE


@reaching_server()
async def _with_paths(harness: Harness, items: list[WorkItem]) -> list[WorkItem]:
    """The items, each question with the path of who asks."""
    paths = await find_paths(harness.client, [item.id for item in items if item.question])
    return [item.model_copy(update={"path": paths.get(item.id, ())}) for item in items]


@reaching_server()
async def with_workers(harness: Harness, items: list[WorkItem]) -> list[WorkItem]:
    """The items, those marked whose worker is not there."""
    return await marked(harness.client, items)


def with_conversation_states(items: list[WorkItem]) -> list[WorkItem]:
    """The items, each conversation `busy` when one of its runs is listed, else `idle`.

    Conversations tell no state of their own: that would cost them an event at every change (spec §9.3).
    """
    busy = {item.conversation_id for item in items if item.kind == "generation"}
    return [
        item.model_copy(update={"state": "busy" if item.conversation_id in busy else "idle"})
        if item.kind == "conversation"
        else item
        for item in items
    ]


def retry(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="The held run or tool call, as `tarry ps` lists it.")],
    as_json: JsonOption = False,
) -> int:
    """Let held work run again."""
    return run_async(_retry(Output(as_json=as_json), task_id))


async def _retry(output: Output, task_id: str) -> int:
    taken = await (await Harness.connect()).retry(task_id)
    if output.as_json:
        output.json({"id": task_id, "accepted_by": "worker" if taken else "server"})
    else:
        output.text("it runs again" if taken else "accepted by the server; if held, it runs again when a worker is up")
    return ExitCode.DONE


def abort(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="A call, task, run or conversation of `tarry ps`.")],
    as_json: JsonOption = False,
) -> int:
    """Stop a tool call, a task or a run, or what a conversation is doing.

    It ends in order and cleans up, when no worker is up as soon as one is; what waits for its result goes on.
    """
    return run_async(_abort(Output(as_json=as_json), task_id))


async def _abort(output: Output, task_id: str) -> int:
    was_running = await (await Harness.connect()).abort(task_id)
    if output.as_json:
        output.json({"id": task_id, "was_running": was_running})
    else:
        output.text("it is being stopped" if was_running else "it was over already")
    return ExitCode.DONE
