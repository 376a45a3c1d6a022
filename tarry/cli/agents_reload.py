"""`tarry agents reload`: the files of this host count for a conversation from now on."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.render import plain
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, require_a_worker
from tarry.client import Harness
from tarry.subagents.reloading import BadFiles
from tarry.subagents.reloading import reload as reload_files


def reload(
    conversation: Annotated[str, typer.Argument(help="The root conversation, or an agent of it by its id.")],
    as_json: JsonOption = False,
) -> int:
    """Let the agents and settings of this host count for a conversation from now on, and say what that changes.

    As `tarry agents definitions` shows them for the folder of the conversation. Agents that are there go on as they
    were begun. When something of the files cannot be used, nothing is reloaded.
    """
    return run_async(_reload(Output(as_json=as_json), conversation))


async def _reload(output: Output, conversation_id: str) -> int:
    harness = await Harness.connect()
    conversation_of(harness, conversation_id)
    await require_a_worker(harness)
    try:
        done = await reload_files(harness, conversation_id)
    except BadFiles as error:
        raise Problem(ExitCode.PUT_RIGHT, "bad_files", str(error), {"conversation_id": conversation_id}) from None
    if output.as_json:
        snapshot = done.catalogue.snapshot
        output.json(
            {
                "conversation_id": conversation_id,
                "agents": [one.name for one in snapshot.definitions],
                "settings": snapshot.settings.model_dump(mode="json"),
                "changes": None if done.changes is None else dataclasses.asdict(done.changes),
                "notes": done.catalogue.notes,
            }
        )
    else:
        output.text("\n".join(done.lines))
        for note in done.catalogue.notes:
            output.remark(plain(note))
    return ExitCode.DONE
