"""`tarry transcript`: what was said and done in a conversation."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tarry.cli import render
from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, no_worker, require_a_worker
from tarry.client import Harness

_WORKER_PATIENCE = 15.0


def transcript(
    conversation: Annotated[str, typer.Argument(help="The conversation.")], as_json: JsonOption = False
) -> int:
    """Print a conversation.

    What the open run has committed so far is included; of a fork, a line says where its own entries begin. A worker
    must be up to tell it.
    """
    return run_async(_transcript(Output(as_json=as_json), conversation))


async def _transcript(output: Output, conversation_id: str) -> int:
    harness = await Harness.connect()
    conversation = conversation_of(harness, conversation_id)
    await require_a_worker(harness)
    try:
        async with asyncio.timeout(_WORKER_PATIENCE):
            parent = (await conversation.view()).parent
    except TimeoutError:
        raise no_worker(harness.settings) from None
    entries = await conversation.transcript()
    if output.as_json:
        told = [entry.model_dump(mode="json") for entry in entries]
        begun = parent and parent.model_dump(mode="json", include={"conversation_id", "at"})
        output.json({"conversation_id": conversation.id, "parent": begun, "entries": told})
    else:
        for entry in entries:
            output.rich(render.entry(entry))
            if parent is not None and entry.index == parent.at:
                output.rich(render.beginning(parent))
    return ExitCode.DONE
