"""`tarry chat`: a conversation on a terminal, or line by line for a script."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.text import Text

from tarry.cli.answers import conclude, ids
from tarry.cli.ask import beside
from tarry.cli.chat_room import Room
from tarry.cli.chat_screen import Screen
from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import DATABASE, AppOption, DatabaseOption
from tarry.cli.running import run_async
from tarry.cli.serving import Serving, Wanted, conversation_of, serving
from tarry.client import Conversation


def chat(
    conversation: Annotated[str | None, typer.Argument(help="Its id; a new one by default.")] = None,
    app: AppOption = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="Use a server of its own, whatever is set.")] = False,
    database: DatabaseOption = DATABASE,
    follow_up: Annotated[
        bool, typer.Option("--follow-up", help="Say what is typed while a run is open after it, not in its middle.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Talk to an agent.

    Answers and output of tools appear as they come. What is typed while a run is open steers it. Questions of the
    agent, and of whatever it started, are answered in place. Ctrl-C stops the run, twice leaves; Ctrl-D leaves, and a
    run goes on. Without a terminal each line of stdin is an input, whose answer is printed before the next is read.
    """
    output = Output(as_json=as_json)
    return run_async(_chat(output, conversation, Wanted(app, embedded, database), follow_up=follow_up))


async def _chat(output: Output, conversation_id: str | None, wanted: Wanted, *, follow_up: bool) -> int:
    async with serving(wanted, output.remark) as found:
        conversation = conversation_of(found.harness, conversation_id)
        if not output.as_json and sys.stdin.isatty() and sys.stdout.isatty():
            return await _on_terminal(found, conversation, follow_up=follow_up)
        return await _line_by_line(output, found, conversation)


async def _on_terminal(found: Serving, conversation: Conversation, *, follow_up: bool) -> int:
    def make_room(tell: Callable[[Text], None]) -> Room:
        return Room(found.harness, conversation, tell, "follow_up" if follow_up else "steer")

    chatting = Screen(make_room).run()
    await (chatting if found.worker is None else beside(found.worker, chatting, {"conversation_id": conversation.id}))
    return ExitCode.DONE


async def _line_by_line(output: Output, found: Serving, conversation: Conversation) -> int:
    """The exit code of the first input without an answer, else 0."""
    worst = int(ExitCode.DONE)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if text := line.strip():
            submission = await conversation.submit(text)
            waiting = submission.wait()
            view = await (waiting if found.worker is None else beside(found.worker, waiting, ids(submission)))
            worst = worst or conclude(output, submission, view)
    return worst
