"""`tarry agents message` and `interrupt`: a person speaks to any agent of a tree, or stops it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from tarry.cli.agents_tree import ConversationArgument, find_tree
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.inputs import request_option, required_text
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.client.agent_host import AgentHost
from tarry.client.errors import AgentRefused
from tarry.store import BlobStore

PathArgument = Annotated[str, typer.Argument(help="The agent: its path, from /root or relative, or its id.")]
RequestId = Annotated[str | None, request_option("the request for ever: a repeat under it does nothing more.")]

_INSTEAD: dict[str, str] = {
    "unknown_target": "`tarry agents tree {conversation}` shows what there is",
    "not_a_child": "`tarry agents tree {conversation}` shows what there is",
    "not_a_descendant": "`tarry agents tree {conversation}` shows what there is",
    "mailbox_full": "begin a turn with what waits there, by --start without a text",
    "mailbox_empty": "give a text",
    "foreground": "set `runtimeMode` to `background`, then `tarry agents reload {conversation}`",
}
"""What a person can do, where a refusal names the tools of a model."""


def message(
    conversation: ConversationArgument,
    path: PathArgument,
    text: Annotated[str | None, typer.Argument(help="What to say; with --start it may be left out.")] = None,
    start: Annotated[bool, typer.Option("--start", help="Begin a turn with all that waits in its mailbox.")] = False,
    request_id: RequestId = None,
    as_json: JsonOption = False,
) -> int:
    """Put a message into the mailbox of an agent, where it waits for the agent's next turn.

    With --start that turn begins, as soon as there is a permit; an agent that is in a turn reads it in that one.
    """
    return run_async(_message(Output(as_json=as_json), conversation, path, text, request_id, start=start))


async def _message(
    output: Output, conversation: str, path: str, text: str | None, request_id: str | None, *, start: bool
) -> int:
    if text is not None or not start:
        text = required_text(text or "")
    async with _host(conversation) as host:
        if start:
            accepted = await host.follow_up(path, text, request_id=request_id)
            facts = accepted.model_dump(mode="json")
            messages = "1 message" if accepted.messages == 1 else f"{accepted.messages} messages"
            told = f"{accepted.path} {_STARTED[accepted.state].format(messages)} ({accepted.turn_id})"
        else:
            assert text is not None
            sent = await host.send(path, text, request_id=request_id)
            facts = sent.model_dump(mode="json")
            told = f"{sent.path} has {sent.pending} pending ({sent.message_id}); --start begins a turn with them"
    if output.as_json:
        output.json({"conversation_id": conversation, **facts})
    else:
        output.text(told)
    return ExitCode.DONE


_STARTED = {
    "running": "begins a turn with {}",
    "queued": "queues for a permit, and begins a turn with {}",
    "joined": "reads {} in its open turn",
}


def interrupt(
    conversation: ConversationArgument, path: PathArgument, request_id: RequestId = None, as_json: JsonOption = False
) -> int:
    """Stop what an agent does, and everything below it.

    Its conversation stays, and a message may begin another turn.
    """
    return run_async(_interrupt(Output(as_json=as_json), conversation, path, request_id))


async def _interrupt(output: Output, conversation: str, path: str, request_id: str | None) -> int:
    async with _host(conversation) as host:
        done = await host.interrupt(path, request_id=request_id)
    if output.as_json:
        output.json({"conversation_id": conversation, **done.model_dump(mode="json")})
    else:
        said = "is being stopped, and all below it" if done.state == "stopping" else "did nothing, nor anything below"
        output.text(f"{done.path} {said}")
    return ExitCode.DONE


@contextlib.asynccontextmanager
async def _host(conversation: str) -> AsyncIterator[AgentHost]:
    """Who may ask for anything below a conversation; what is refused is told with what a person can do."""
    tree = await find_tree(conversation)
    try:
        yield AgentHost(tree.handle, BlobStore(tree.harness.client.data_converter), conversation)
    except AgentRefused as error:
        text = str(error)
        if (instead := _INSTEAD.get(error.code)) is not None:
            text = f"{text.partition(': ')[0]}: {instead.format(conversation=conversation)}"
        raise Problem(
            ExitCode.NO_ANSWER, "agent_refused", text, {"conversation_id": conversation, "code": error.code}
        ) from None
