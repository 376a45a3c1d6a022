"""Agents that delegate to agents, end to end: a scripted model for the root, and one for each agent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarry.app import App, Extension
from tarry.client import Conversation, WorkItem
from tarry.client.agents import AgentTree
from tarry.core.messages import ToolMessage, UserMessage
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode, Snapshot, SubagentSettings
from tarry.core.subagents.protocol import AgentRow
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.subagents.extension import subagents
from tarry.testing import ScriptedModel
from tarry.tools import Tool
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually


@dataclass
class Heard:
    """The requests that each model had, by its name; `root` is the root's."""

    requests: dict[str, list[ModelRequest]] = field(default_factory=dict)

    def on(self, name: str) -> Callable[[ModelRequest], None]:
        """Listens for the model of that name."""
        return self.requests.setdefault(name, []).append

    def tools(self, name: str) -> list[str]:
        """The tools of its newest request."""
        return [spec.name for spec in self.requests[name][-1].tools]

    def schema(self, tool: str, name: str = "root") -> dict[str, Any]:
        """The parameters of a tool in its newest request."""
        return next(spec.parameters for spec in self.requests[name][-1].tools if spec.name == tool)

    def users(self, name: str) -> list[str]:
        """What users say in its newest request."""
        return [one.text for one in self.requests[name][-1].messages if isinstance(one, UserMessage)]


def snapshot_of(agents: Sequence[AgentDefinition], mode: RuntimeMode = "background", **settings: Any) -> Snapshot:
    """A catalogue with settings."""
    return Snapshot(definitions=tuple(agents), settings=SubagentSettings(runtime_mode=mode, **settings))


def agent(name: str, **fields: Any) -> AgentDefinition:
    """An agent whose model has its name."""
    known: dict[str, Any] = {"description": f"the {name}", "model": name, "prompt": f"You are {name}."}
    return AgentDefinition(name=name, **known | fields)


@dataclass
class Delegation:
    """A root conversation on a stage with one worker, whose agents are scripted."""

    on: Stage
    heard: Heard
    root: Conversation

    async def tree(self) -> AgentTree:
        """The tree of the root."""
        return await self.on.harness.agents(self.root.id)

    async def rows(self) -> list[AgentRow]:
        """All agents."""
        return list((await (await self.tree()).list()).agents)

    async def calls(self) -> list[WorkItem]:
        """Tool calls that are not over, of the root and of all agents; a server of many tests lists others, too."""
        own = {self.root.id, *(row.agent_id for row in await self.rows())}
        return [item async for item in self.on.harness.work() if item.tool and item.conversation_id in own]

    async def row(self, path: str) -> AgentRow:
        """One of them."""
        return next(row for row in await self.rows() if row.path == path)

    async def becomes(self, path: str, *states: str) -> AgentRow:
        """Return when an agent is in one of these states."""

        async def found() -> AgentRow | None:
            return next((row for row in await self.rows() if row.path == path), None)

        row = await eventually(found, lambda row: row is not None and row.state in states)
        assert row is not None
        return row


Script = ScriptedModel | Sequence[Any]
"""A model, or the steps of one that begins anew with each input."""


@contextlib.asynccontextmanager
async def delegation(
    server: EmbeddedServer,
    store: Path,
    root: Script,
    agents: Mapping[str, Script] | None = None,
    *,
    snapshot: Snapshot | None = None,
    mode: RuntimeMode = "background",
    tools: Sequence[Tool] = (),
    extensions: Sequence[Extension] = (),
    worker: bool = True,
    **settings: Any,
) -> AsyncIterator[Delegation]:
    """The scripts of the root and of agents by name. `snapshot`: the catalogue; by default an agent for each script.

    What else is named is settings of the tree; children have all extensions of their parent, unless it says otherwise.
    """
    heard = Heard()
    scripts = agents or {}
    catalogue = snapshot or snapshot_of(
        [agent(name) for name in scripts], mode, **{"inherit_extensions": True} | settings
    )
    app = App(
        model=_model("root", root, heard),
        models={name: _model(name, script, heard) for name, script in scripts.items()},
        extensions=[Extension("test", tools), *extensions, subagents(catalogue)],
    )
    async with idle_stage(server, app, store) as on, contextlib.AsyncExitStack() as exit:
        if worker:
            await exit.enter_async_context(on.worker())
        yield Delegation(on, heard, on.harness.conversation())


def _model(name: str, script: Script, heard: Heard) -> ScriptedModel:
    if isinstance(script, ScriptedModel):
        return script
    return ScriptedModel.for_each_input(script, name, on_request=heard.on(name))


def last_result(request: ModelRequest) -> str:
    """What the model reads of its newest call."""
    return next(one.text for one in reversed(request.messages) if isinstance(one, ToolMessage))


def last_user(request: ModelRequest) -> str:
    """What the model was asked last."""
    return next(one.text for one in reversed(request.messages) if isinstance(one, UserMessage))
