"""`/subagents` and `/reload` of a chat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.text import Text

from tarry.cli import render
from tarry.cli.agents_picture import line, questions_by_agent, summary
from tarry.client import Harness
from tarry.client.errors import NoSuchAgents
from tarry.core.subagents.definition import AgentDefinition
from tarry.subagents.reloading import reload


async def subagents(harness: Harness, conversation_id: str) -> list[Text]:
    """How agents are scheduled, which there are to delegate to, and those below the conversation."""
    tree = await harness.agents(conversation_id)
    try:
        snapshot, listed = await tree.snapshot(), await tree.list(conversation_id)
    except NoSuchAgents:
        return [Text("  no agents: the application has no tools to delegate, or nothing was said yet", "dim")]
    asked = questions_by_agent(await harness.questions(conversation_id)) if listed.agents else {}
    now = datetime.now(UTC)
    return [
        Text(f"  {summary(listed, snapshot.settings.runtime_mode)}"),
        *_definitions(snapshot.definitions),
        *(Text(f"  {render.plain(problem)}", "yellow") for problem in snapshot.problems),
        *(line(row, asked.get(row.path, ()), now) for row in listed.agents),
    ]


def _definitions(definitions: tuple[AgentDefinition, ...]) -> Iterator[Text]:
    """What there is to delegate to."""
    for one in definitions:
        yield Text.assemble(
            ("  agent ", "dim"), (one.name, "bold"), ": ", render.cut(render.plain(one.description), 100)
        )
    if not definitions:
        yield Text("  there are no agents to delegate to: `tarry agents init`, then /reload", "yellow")


async def reloaded(harness: Harness, conversation_id: str) -> list[Text]:
    """The files of this host count from now on. Raises as `tarry.subagents.reloading.reload`."""
    done = await reload(harness, conversation_id)
    return [Text(f"  {render.plain(line)}", "dim") for line in done.lines]
