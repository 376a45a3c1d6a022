"""`tarry documents`: what a conversation keeps for its application, as it is stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, no_worker, require_a_worker
from tarry.client import Harness, StoredDocument

_WORKER_PATIENCE = 15.0
_SHOWN = 60
"""Characters of a value in the list."""
_NUMBERS = ("REVISION", "VERSION")


def documents(
    conversation: Annotated[str, typer.Argument(help="The conversation.")],
    name: Annotated[str | None, typer.Argument(help="One document: its name, with /KEY if it is one of many.")] = None,
    as_of: Annotated[
        int | None, typer.Option(min=0, help="As they were at the end of the commit of that entry, counted from 0.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the documents of a conversation.

    Those of its session are among them. As they are stored: no application is asked, but a worker must be up.
    """
    return run_async(_documents(Output(as_json=as_json), conversation, name, as_of))


async def _documents(output: Output, conversation_id: str, name: str | None, as_of: int | None) -> int:
    harness = await Harness.connect()
    conversation = conversation_of(harness, conversation_id)
    await require_a_worker(harness)
    try:
        async with asyncio.timeout(_WORKER_PATIENCE):
            found = await conversation.documents(as_of=as_of)
    except TimeoutError:
        raise no_worker(harness.settings) from None
    wanted = [one for one in found if name in (None, one.id)]
    if name is not None and not wanted:
        raise Problem(ExitCode.NO_ANSWER, "no_document", _missing(conversation.id, name, as_of, found))
    if output.as_json:
        told = [one.model_dump(mode="json") for one in wanted]
        output.json({"conversation_id": conversation.id, "as_of": as_of, "documents": told})
    elif name is not None:
        output.text(json.dumps(wanted[0].value, ensure_ascii=False, indent=2))
    elif wanted:
        output.table(_table(wanted))
    return ExitCode.DONE


def _missing(conversation_id: str, name: str, as_of: int | None, found: Sequence[StoredDocument]) -> str:
    when = "" if as_of is None else f" that can be rewound, as of entry {as_of}"
    has = ", ".join(one.id for one in found) or "none"
    return f"conversation {conversation_id} has no document {name}{when}; it has {has}"


def _table(documents: Sequence[StoredDocument]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("DOCUMENT", "SCOPE", "REVISION", "VERSION", "VALUE"):
        table.add_column(column, no_wrap=True, justify="right" if column in _NUMBERS else "left")
    for one in documents:
        value = render.cut(json.dumps(one.value, ensure_ascii=False), _SHOWN)
        cells = (one.id, one.scope, str(one.revision), str(one.version), value)
        table.add_row(*(Text(render.plain(cell)) for cell in cells))
    return table
