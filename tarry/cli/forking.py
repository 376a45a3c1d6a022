"""`tarry fork`: a new conversation that begins with what was said in another one."""

from __future__ import annotations

from typing import Annotated

import typer

from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, require_a_worker
from tarry.client import Harness


def fork(
    conversation: Annotated[str, typer.Argument(help="The conversation.")],
    at: Annotated[
        int | None, typer.Option(min=0, help="The last entry that the fork has, counted from 0; by default the newest.")
    ] = None,
    new_id: Annotated[str | None, typer.Option("--as", help="The id of the fork; by default a new one.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Begin a new conversation with what was said in another one, and print its id.

    Any entry will do, also one of a run that is open. Both go on by themselves. A worker must be up.
    """
    return run_async(_fork(Output(as_json=as_json), conversation, at, new_id))


async def _fork(output: Output, conversation_id: str, at: int | None, new_id: str | None) -> int:
    harness = await Harness.connect()
    parent = conversation_of(harness, conversation_id)
    fork_id = conversation_of(harness, new_id).id
    await require_a_worker(harness)
    fork = await parent.fork(at, conversation_id=fork_id)
    known = (await fork.view()).parent
    assert known is not None
    if output.as_json:
        told = known.model_dump(mode="json", include={"conversation_id", "at"})
        output.json({"conversation_id": fork.id, "parent": told})
    else:
        output.text(fork.id)
        output.remark(f"a fork of {known.conversation_id} at entry {known.at}")
    return ExitCode.DONE
