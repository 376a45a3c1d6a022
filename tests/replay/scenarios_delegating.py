"""Agents that delegate, played to be kept: the tree, its root and its agents, in both modes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tarry.app import App, Extension
from tarry.client import Conversation
from tarry.core.subagents.definition import RuntimeMode
from tarry.subagents.extension import subagents
from tarry.testing import Call, ScriptedModel, call, calls, fail, say
from tarry.tools import tool
from tests.replay.studio import Studio
from tests.support.delegating import agent, snapshot_of
from tests.support.held import HeldTool
from tests.support.stage import Stage
from tests.support.waiting import eventually

WAIT = call("wait_agent", timeout_seconds=120)


def start(name: str, task_name: str) -> Call:
    return call("subagent", agent=name, prompt="Go.", task_name=task_name)


def app_of(root: Sequence[Any], agents: Mapping[str, Sequence[Any]], mode: RuntimeMode, held: HeldTool) -> App:
    """The root, and agents by name, whose scripts begin anew with each input."""

    @tool
    def until_begun() -> None:
        """Return when the held tool has begun."""
        while not held.ledger:
            time.sleep(0.02)

    return App(
        model=ScriptedModel(root, "root"),
        models={name: ScriptedModel.for_each_input(steps, name) for name, steps in agents.items()},
        extensions=[
            Extension("test", [held.tool, until_begun]),
            subagents(snapshot_of([agent(name) for name in agents], mode, inherit_extensions=True)),
        ],
    )


async def at_rest(on: Stage, conversation: Conversation) -> None:
    """Return when no agent works any more."""
    tree = await on.harness.agents(conversation.id)

    async def states() -> set[str]:
        return {row.state for row in (await tree.list()).agents}

    await eventually(states, lambda found: found == {"idle"})


async def delegated_in_background(studio: Studio) -> None:
    """A nested agent and a report, a mailbox and a follow-up, an interrupt, and a Stop of the whole tree."""
    held = HeldTool()
    more = call("send_message", agent="a", message="More.")
    root = [
        *[start("lead", "a"), WAIT, more, call("followup_task", agent="a"), WAIT, call("list_agents")],
        *[start("worker", "c"), call("until_begun"), call("interrupt_agent", agent="c"), WAIT],
        *[call("followup_task", agent="c", message="Again."), WAIT, say("done")],
    ]
    agents: dict[str, Sequence[Any]] = {
        "lead": [call("subagent", agent="scout", prompt="Look."), WAIT, call("report", message="Half."), say("led")],
        "scout": [say("found")],
        "worker": [call("work", what="a"), say("worked")],
    }
    async with studio.stage(app_of(root, agents, "background", held)) as on:
        conversation = on.harness.conversation()
        run = await conversation.submit("go")
        await held.begun(2)
        await conversation.abort()
        await run.wait()
        await at_rest(on, conversation)


async def delegated_in_foreground(studio: Studio) -> None:
    """Two agents side by side, one of which fails; then one that is stopped with the run that waits for it."""
    held = HeldTool()
    root = [calls(start("scout", "a"), start("broken", "b")), start("worker", "c"), say("done")]
    agents: dict[str, Sequence[Any]] = {
        "scout": [say("found")],
        "broken": [fail("permanent", "no credit left")],
        "worker": [call("work", what="a"), say("worked")],
    }
    async with studio.stage(app_of(root, agents, "foreground", held)) as on:
        conversation = on.harness.conversation()
        run = await conversation.submit("go")
        await held.begun()
        await conversation.abort()
        await run.wait()
        await at_rest(on, conversation)


DELEGATING = {scenario.__name__: scenario for scenario in (delegated_in_background, delegated_in_foreground)}
