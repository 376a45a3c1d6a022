"""`tarry ask`: a question and its answer in one command, with what it takes to get one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Annotated, Any, TypeVar

import typer

from tarry.cli.answers import conclude, ids
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.inputs import required_text
from tarry.cli.live import settled
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import DATABASE, AppOption, DatabaseOption, ended
from tarry.cli.running import run_async
from tarry.cli.serving import Serving, Wanted, conversation_of, serving
from tarry.client import Conversation, Submission
from tarry.core.protocol import SubmissionView
from tarry.processes import Child

T = TypeVar("T")

_STOP_PATIENCE = 15.0
_STATUS_PATIENCE = 2.0


def ask(
    text: Annotated[str, typer.Argument(help="What to ask.")],
    conversation: Annotated[
        str | None, typer.Option(help="Go on with this conversation; a new one by default.")
    ] = None,
    app: AppOption = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="Use a server of its own, whatever is set.")] = False,
    database: DatabaseOption = DATABASE,
    as_json: JsonOption = False,
) -> int:
    """Ask, watch the run, and print the answer.

    Ctrl-C stops the run. Where no server is configured and none listens on the default port, this starts one, with a
    worker, for the time of the question: then OPENAI_API_KEY is all it needs. With --app a worker is started on a
    configured server too.
    """
    output = Output(as_json=as_json)
    return run_async(_ask(output, required_text(text), conversation, Wanted(app, embedded, database)))


async def _ask(output: Output, text: str, conversation_id: str | None, wanted: Wanted) -> int:
    async with serving(wanted, output.remark) as found:
        conversation = conversation_of(found.harness, conversation_id)
        submission = await conversation.submit(text)
        output.remark(f"conversation {submission.conversation_id}, request {submission.request_id}")
        try:
            view = await _answered(output, found, submission)
        except asyncio.CancelledError:
            output.remark("stopping the run …")
            raise await _stopped(conversation, submission) from None
    return conclude(output, submission, view)


async def _answered(output: Output, found: Serving, submission: Submission) -> SubmissionView:
    waiting = settled(found.harness, submission, output.progress)
    return await waiting if found.worker is None else await beside(found.worker, waiting, ids(submission))


async def beside(worker: Child, work: Coroutine[Any, Any, T], facts: Mapping[str, object]) -> T:
    """The result of `work`, unless our own worker dies first.

    Raises:
        Problem: it did; with `facts`.
    """
    task, death = asyncio.ensure_future(work), asyncio.ensure_future(worker.wait())
    try:
        await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        text = f"{ended(death.result())}, see {worker.log}; a worker that is started goes on with the question"
        raise Problem(ExitCode.NO_ANSWER, "worker_died", text, facts)
    finally:
        task.cancel()
        death.cancel()
        await asyncio.gather(task, death, return_exceptions=True)


async def _stopped(conversation: Conversation, submission: Submission) -> Problem:
    """Stop the run if it is this input's, and say what was done."""
    if not await _is_running(submission):
        done = f"the input stays queued, `tarry wait {conversation.id} {submission.request_id}` waits for its answer"
    else:
        await conversation.abort()
        done = f"conversation {conversation.id} was told to stop its run"
        try:
            async with asyncio.timeout(_STOP_PATIENCE):
                view = await submission.wait()
            done = "the run was stopped" if view.reason == "aborted" else "the run had ended already"
        except TimeoutError:
            pass
    return Problem(ExitCode.INTERRUPTED, "interrupted", f"interrupted: {done}", ids(submission))


async def _is_running(submission: Submission) -> bool:
    """Whether the open run answers this input; a stop would else hit another's."""
    try:
        async with asyncio.timeout(_STATUS_PATIENCE):
            return (await submission.status()).status == "placed"
    except TimeoutError:
        return False
