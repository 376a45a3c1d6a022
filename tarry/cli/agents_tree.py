"""`tarry agents tree` and `follow`: how the agents of a conversation stand, and what happens to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from tarry.cli.agents_picture import asks, happened, picture, questions_by_agent, summary
from tarry.cli.chat_scroll import Scroll
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.follow import doing
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, require_a_worker
from tarry.client import Harness, NoSuchConversation
from tarry.client.agents import AgentTree
from tarry.client.errors import NoSuchAgents, ServerUnavailable
from tarry.client.listening import Listening
from tarry.core.live import LiveView
from tarry.core.subagents.paths import ROOT, absolute
from tarry.core.subagents.protocol import AgentEvent, AgentList, AgentRow
from tarry.core.subagents.refusing import Refused

ConversationArgument = Annotated[
    str, typer.Argument(metavar="CONVERSATION", help="The root conversation, or an agent by its id: those below it.")
]

_PAUSE = 2.0
"""Seconds until a worker that did not answer is asked again."""
_GATHER = 0.1


@dataclass(frozen=True)
class Tree:
    """The agents below one conversation of a tree."""

    harness: Harness
    handle: AgentTree
    conversation_id: str

    async def list(self) -> AgentList:
        """How they stand.

        Raises:
            NoSuchAgents, ServerUnavailable: there are none, or nobody answers.
        """
        return await self.handle.list(self.conversation_id)

    def row(self, listed: AgentList, reference: str) -> AgentRow:
        """The agent that a path or an id means.

        Raises:
            Problem: none.
        """
        with contextlib.suppress(Refused):
            path = absolute(reference, listed.path)
            for row in listed.agents:
                if reference == row.agent_id or path == row.path:
                    return row
        shown = f"`tarry agents tree {self.conversation_id}` shows what there is"
        text = f"there is no agent {reference[:200]!r} below {listed.path}: {shown}"
        raise Problem(ExitCode.NO_ANSWER, "no_such_agent", text, {"conversation_id": self.conversation_id})


async def find_tree(conversation_id: str) -> Tree:
    """The tree of a conversation; it may not have begun.

    Raises:
        Problem: no worker serves, or it cannot be an id.
        NoSuchConversation, ServerUnavailable: nothing has that id, or nobody answers.
    """
    harness = await Harness.connect()
    conversation_of(harness, conversation_id)
    try:
        await require_a_worker(harness)
    except Problem as problem:
        text = f"{problem.text}; without one `tarry ps` lists agents by their paths, and what they wait for"
        raise Problem(problem.exit_code, problem.kind, text, {"conversation_id": conversation_id}) from None
    return Tree(harness, await harness.agents(conversation_id), conversation_id)


def tree(conversation: ConversationArgument, as_json: JsonOption = False) -> int:
    """Show the agents below a conversation: what each does, what it waits for and whom it asks, and what it spent."""
    return run_async(_tree(Output(as_json=as_json), conversation))


async def _tree(output: Output, conversation_id: str) -> int:
    tree = await find_tree(conversation_id)
    listed = await tree.list()
    mode = (await tree.handle.snapshot()).settings.runtime_mode
    questions = await tree.harness.questions(conversation_id)
    if output.as_json:
        asked = questions_by_agent(questions)
        facts = listed.model_dump(mode="json")
        for row in facts["agents"]:
            row["questions"] = [one.model_dump(mode="json") for one in asked.get(row["path"], ())]
        own = [one.model_dump(mode="json") for one in asked.get(listed.path, ())]
        output.json({"conversation_id": conversation_id, "mode": mode, "questions": own, **facts})
    else:
        output.table(picture(listed, conversation_id, questions, datetime.now(UTC)))
        output.text(summary(listed, mode))
    return ExitCode.DONE


def follow(
    conversation: ConversationArgument,
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="Follow this agent: what it says and does. Its path or id.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print what happens in a tree of agents as it happens, until Ctrl-C; with a PATH what one agent says and does.

    What is known of before comes first. With --json one object a line. A worker or a server that is away is waited for.
    """
    output = Output(as_json=as_json)
    return run_async(_follow(output, conversation, path))


async def _follow(output: Output, conversation_id: str, path: str | None) -> int:
    tree = await find_tree(conversation_id)
    listed = await tree.list()
    # Ctrl-C is the ordinary end.
    with contextlib.suppress(asyncio.CancelledError):
        if path is None:
            await _follow_tree(output, tree)
        else:
            await _follow_agent(output, tree, tree.row(listed, path))
    return ExitCode.DONE


async def _follow_tree(output: Output, tree: Tree) -> None:
    told = 0
    async with contextlib.aclosing(_lists(output, tree)) as lists:
        async for listed in lists:
            ids = {row.path: row.agent_id for row in listed.agents}
            new = [event for event in listed.events if event.number > told]
            if told and new and listed.path == ROOT and (missed := new[0].number - told - 1):
                output.complaint(f"{missed} events were missed: more came at once than a tree tells")
            for event in new:
                _tell(output, event, ids)
            told = max([told, *(event.number for event in new)])
    output.remark("the tree is over")


def _tell(output: Output, event: AgentEvent, ids: dict[str, str]) -> None:
    if output.as_json:
        output.json({**event.model_dump(mode="json"), "agent_id": ids.get(event.path, "")})
    else:
        output.rich(happened(event, ids))


async def _lists(output: Output, tree: Tree) -> AsyncGenerator[AgentList]:
    """How the tree stands, and each time that something happened in it; until it is over."""
    listening = Listening(tree.harness.client, tree.handle.id)
    listening.follow([tree.handle.id])
    try:
        while True:
            listening.take()
            is_over = tree.handle.id in listening.over
            try:
                yield await tree.list()
            except ServerUnavailable as error:
                output.complaint(str(error))
                await asyncio.sleep(_PAUSE)
                continue
            except NoSuchAgents:
                return
            if is_over:
                return
            await listening.told.wait()
            await asyncio.sleep(_GATHER)
    finally:
        await listening.close()


async def _follow_agent(output: Output, tree: Tree, row: AgentRow) -> None:
    """From its beginning, which may be ahead, until its conversation is over."""
    output.remark(f"{row.path}, {row.definition}, {row.state}: {row.agent_id}")
    conversation = tree.harness.conversation(row.agent_id)
    async with contextlib.aclosing(_lists(output, tree)) as lists:
        async for _ in lists:
            try:
                if output.as_json:
                    async for event in conversation.events():
                        output.json(event.model_dump(mode="json"))
                else:
                    await _scroll(output, tree.harness, row.agent_id)
                return
            except NoSuchConversation:
                continue  # it waits for a permit; the tree changes when it begins


async def _scroll(output: Output, harness: Harness, agent_id: str) -> None:
    scroll, said = Scroll(), ""
    async with contextlib.aclosing(harness.conversation(agent_id).watch()) as changes:
        async for change in changes:
            for line in scroll.take(change.view):
                output.rich(line)
            what = _doing(change.view, harness.settings.task_queue)
            if what not in ("", said):
                output.rich(Text(f"({what})", "dim"))
            said = what


def _doing(view: LiveView, queue: str) -> str:
    """What goes on between the lines, in a few words."""
    if view.questions:
        first = view.questions[0]
        return f"{first.agent} {asks(first)}".strip()
    return "" if view.contact == "up" and view.run is None else doing(view, "", queue)
