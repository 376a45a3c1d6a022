"""`tarry submit` and `tarry wait`: the two halves of a question, for scripts and for long runs."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tarry.cli.answers import conclude, facts, ids
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.inputs import request_option, required_text
from tarry.cli.live import doing_now, settled
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of
from tarry.client import Harness, Submission
from tarry.core.protocol import SubmissionView, WhenBusy


def submit(
    text: Annotated[str, typer.Argument(help="The input.")],
    conversation: Annotated[str | None, typer.Option(help="Its conversation; a new one by default.")] = None,
    request_id: Annotated[
        str | None, request_option("the input for ever: a repeat under it runs nothing and gives the first.")
    ] = None,
    when_busy: Annotated[
        WhenBusy, typer.Option(help="If a run is open: join it after its round of tools, queue behind it, or refuse.")
    ] = "follow_up",
    as_json: JsonOption = False,
) -> int:
    """Hand an input in and return at once.

    No worker needs to be up: then the server keeps it. `tarry wait` brings the answer.
    """
    return run_async(_submit(Output(as_json=as_json), required_text(text), conversation, request_id, when_busy))


async def _submit(
    output: Output, text: str, conversation_id: str | None, request_id: str | None, when_busy: WhenBusy
) -> int:
    harness = await Harness.connect()
    conversation = conversation_of(harness, conversation_id)
    submission = await conversation.submit(text, request_id=request_id, when_busy=when_busy)
    view = submission.view or SubmissionView(request_id=submission.request_id, status="queued")
    accepted_by = "server" if submission.view is None else "worker"
    if output.as_json:
        output.json({**facts(submission, view), "accepted_by": accepted_by})
    else:
        output.text(_told(submission, f"{view.status}, accepted by the {accepted_by}"))
        output.remark(f"tarry wait {submission.conversation_id} {submission.request_id}")
    return ExitCode.DONE


def _told(submission: Submission, status: str) -> str:
    lines = (("conversation", submission.conversation_id), ("request", submission.request_id), ("status", status))
    return "\n".join(f"{name:13} {value}" for name, value in lines)


def wait(
    conversation: Annotated[str, typer.Argument(help="The conversation.")],
    request: Annotated[str, typer.Argument(help="The request id, as `tarry submit` printed it.")],
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds; for ever by default.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Wait for an answer and print it.

    Ctrl-C and --timeout only end the waiting.
    """
    return run_async(_wait(Output(as_json=as_json), conversation, request, timeout))


async def _wait(output: Output, conversation_id: str, request_id: str, patience: float | None) -> int:
    harness = await Harness.connect()
    submission = conversation_of(harness, conversation_id).submission(request_id)
    try:
        async with asyncio.timeout(patience):
            view = await settled(harness, submission, output.progress)
    except TimeoutError:
        raise await _timed_out(harness, submission, patience) from None
    return conclude(output, submission, view)


async def _timed_out(harness: Harness, submission: Submission, patience: float | None) -> Problem:
    doing = await doing_now(harness, submission)
    text = f"no answer within {patience:g} s ({doing}); waiting again does no harm"
    return Problem(ExitCode.TIMEOUT, "timeout", text, {**ids(submission), "doing": doing})
