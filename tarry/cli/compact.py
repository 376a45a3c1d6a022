"""`tarry compact`: have a summary take the place of what was said long ago."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tarry.cli.exits import ExitCode, Problem
from tarry.cli.inputs import request_option
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of
from tarry.client import Compaction, Harness
from tarry.core.compaction_view import CompactionView

_TOLD = {
    "placed": "placed as entry {entry}: about {before} tokens of context have become {after}",
    "nothing": "nothing to compact: {detail}",
}
"""What is well. Anything else is a problem."""


def compact(
    conversation: Annotated[str, typer.Argument(help="The conversation.")],
    instructions: Annotated[str, typer.Option(help="What the summary is to attend to.")] = "",
    request_id: Annotated[str | None, request_option("it: a repeat under it asks for nothing new.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the summary is placed.")] = True,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait; for ever by default.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Compact what a conversation's model is told; the transcript stays whole.

    Runs go on meanwhile. No worker needs to be up to ask; one makes the summary.
    """
    asked = _compact(Output(as_json=as_json), conversation, instructions, request_id, timeout, wait=wait)
    return run_async(asked)


async def _compact(
    output: Output,
    conversation_id: str,
    instructions: str,
    request_id: str | None,
    patience: float | None,
    *,
    wait: bool,
) -> int:
    harness = await Harness.connect()
    conversation = conversation_of(harness, conversation_id)
    compaction = await conversation.compact(instructions, request_id=request_id)
    if not wait:
        return _tell(output, conversation_id, compaction, compaction.view)
    try:
        async with asyncio.timeout(patience):
            view = await compaction.wait()
    except TimeoutError:
        text = (
            f"no summary within {patience:g} s; it is still made, and asking under {compaction.request_id} waits again"
        )
        facts = {"conversation_id": conversation_id, "request_id": compaction.request_id}
        raise Problem(ExitCode.TIMEOUT, "timeout", text, facts) from None
    return _tell(output, conversation_id, compaction, view)


def _tell(output: Output, conversation_id: str, compaction: Compaction, view: CompactionView | None) -> int:
    facts = {
        "conversation_id": conversation_id,
        "request_id": compaction.request_id,
        "accepted_by": "server" if view is None else "worker",
        **({} if view is None else view.model_dump(mode="json", exclude={"request_id"})),
    }
    if view is not None and view.is_over and view.status not in _TOLD:
        text = f"not compacted ({view.status}): {view.detail}"
        raise Problem(ExitCode.NO_ANSWER, "not_compacted", text, facts)
    if output.as_json:
        output.json(facts)
    elif view is not None and view.is_over:
        output.text(_TOLD[view.status].format(**facts))
    else:
        output.text(f"asked for under {compaction.request_id}, accepted by the {facts['accepted_by']}")
    return ExitCode.DONE
