"""`tarry write`, `tarry reset` and `tarry withdraw`: raw entries, a new beginning, and what is taken back.

None of them needs a worker.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tarry.cli.answers import ids
from tarry.cli.exits import ExitCode
from tarry.cli.inputs import request_option, required_text
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of
from tarry.client import Harness, Submission
from tarry.core.protocol import SubmissionView

Kind = Literal["note", "user"]
ConversationArgument = Annotated[str, typer.Argument(help="The conversation.")]
RequestOption = Annotated[
    str | None, request_option("the entry for ever: a repeat under it writes nothing and gives the first.")
]

_WHY_NOT = {
    "already_placed": "a run has it already: `tarry abort` stops that",
    "settled": "it has ended: `tarry wait` tells how",
    "not_found": "the conversation knows no such request",
}


def write(
    conversation: ConversationArgument,
    text: Annotated[str, typer.Argument(help="What it says.")],
    kind: Annotated[Kind, typer.Option(help="For people alone, or read by the next model request.")] = "note",
    request_id: RequestOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put an entry into the transcript; no run starts for it.

    When a run is open it is placed after its current round of tools, or at its end.
    """
    return run_async(_write(Output(as_json=as_json), conversation, required_text(text), kind, request_id))


async def _write(output: Output, conversation_id: str, text: str, kind: Kind, request_id: str | None) -> int:
    conversation = conversation_of(await Harness.connect(), conversation_id)
    return _told(output, await conversation.write(text, kind=kind, request_id=request_id))


def reset(
    conversation: ConversationArgument,
    handoff: Annotated[str | None, typer.Option(help="All that the next run is told of what came before.")] = None,
    request_id: RequestOption = None,
    as_json: JsonOption = False,
) -> int:
    """Begin anew: no model reads what came before. The transcript stays.

    An open run ends after its current round of tools, without an answer; an answer that comes first counts.
    """
    return run_async(_reset(Output(as_json=as_json), conversation, handoff, request_id))


async def _reset(output: Output, conversation_id: str, handoff: str | None, request_id: str | None) -> int:
    conversation = conversation_of(await Harness.connect(), conversation_id)
    return _told(output, await conversation.reset(handoff, request_id=request_id))


def _told(output: Output, submission: Submission) -> int:
    view = submission.view or SubmissionView(request_id=submission.request_id, status="queued")
    accepted_by = "server" if submission.view is None else "worker"
    if output.as_json:
        facts = {"status": view.status, "entry": view.entry, "reason": view.reason, "accepted_by": accepted_by}
        output.json({**ids(submission), **facts})
    elif view.entry is not None:
        output.text(f"entry {view.entry}")
    else:
        output.text(f"{view.status}, accepted by the {accepted_by}")
        output.remark(f"tarry wait {submission.conversation_id} {submission.request_id}")
    return ExitCode.DONE


def withdraw(
    conversation: ConversationArgument,
    request: Annotated[str, typer.Argument(help="The request id, as `tarry submit` printed it.")],
    as_json: JsonOption = False,
) -> int:
    """Take back what still waits in a conversation.

    Ends with 1 when it waits no more; what a run does already is stopped by `tarry abort`.
    """
    return run_async(_withdraw(Output(as_json=as_json), conversation, request))


async def _withdraw(output: Output, conversation_id: str, request_id: str) -> int:
    answer = await conversation_of(await Harness.connect(), conversation_id).withdraw(request_id)
    if output.as_json:
        output.json({"conversation_id": conversation_id, "request_id": request_id, "answer": answer})
    if answer in _WHY_NOT:
        output.complaint(f"{answer}: {_WHY_NOT[answer]}")
        return ExitCode.NO_ANSWER
    if not output.as_json:
        output.text("accepted by the server: it is tried when a worker is up" if answer == "accepted" else answer)
    return ExitCode.DONE
