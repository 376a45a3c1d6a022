"""`api.agents`: what a call asks of its tree of agents, on the worker's loop (spec §17.40)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from activities.agents.lost import is_over
from activities.reports import Reports
from activities.run.offering import Offering
from tarry.api.agents import TreeApi
from tarry.app import Extension, Registry
from tarry.client import Harness
from tarry.client.agents import AgentTree, kept_text, read_text
from tarry.client.errors import AgentRefused
from tarry.core.agent import Agent
from tarry.core.prompt import Prompt
from tarry.core.protocol import PlainSignal, ToolRunInput, digest
from tarry.core.subagents.ceilings import SUBAGENTS, Installed, child_agent, child_extensions
from tarry.core.subagents.definition import AgentDefinition, Snapshot
from tarry.core.subagents.paths import ROOT, depth
from tarry.core.subagents.protocol import (
    READ_DONE,
    AgentList,
    Caller,
    Completion,
    ContextPolicy,
    FollowUp,
    Interrupt,
    Interrupted,
    ReadDone,
    ReadUpdates,
    Reported,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    Text,
    TurnAccepted,
    Updates,
    tree_of,
)
from tarry.core.subagents.refusing import Refused
from tarry.core.text import head_of
from tarry.offers import OfferAsked
from tarry.store import BlobStore

R = TypeVar("R")
AtHome = Callable[[Callable[[], "asyncio.Task[Any]"]], "Future[Any]"]
"""Starts work on the worker's loop, given up when the run is."""


class CallersTree(TreeApi):
    """The tree as one call sees it."""

    def __init__(
        self, harness: Harness, registry: Registry, models: tuple[str, ...], input: ToolRunInput, at_home: AtHome
    ) -> None:
        self._harness = harness
        self._registry = registry
        self._models = models
        self._input = input
        self._at_home = at_home
        self._blobs = BlobStore(harness.client.data_converter)
        self._tree = AgentTree(harness.client, harness.settings, input.tree or tree_of(input.task_id))
        self._caller = Caller(conversation_id=input.conversation_id, task_id=input.task_id)

    @property
    def is_root(self) -> bool:
        """Whether no agent above has started it."""
        return self._tree.root == self._input.conversation_id

    async def snapshot(self) -> Snapshot:
        """Ask the tree."""
        return await self._do(self._tree.snapshot)

    async def list(self) -> AgentList:
        """Ask the tree."""
        return await self._do(lambda: self._tree.list(self._input.conversation_id))

    async def start(
        self,
        agent: str,
        prompt: str,
        *,
        description: str = "",
        task_name: str | None = None,
        context: ContextPolicy | None = None,
        output: dict[str, Any] | None = None,
        key: str = "",
    ) -> Started:
        """Find out what the child may have, and ask the tree."""

        async def starting() -> Started:
            request = StartAgent(
                caller=self._caller,
                definition=agent,
                description=description,
                task_name=task_name,
                prompt=await kept_text(self._blobs, prompt),
                context=context or ContextPolicy(),
                output=output,
                agent=await self._child(agent),
                key=key,
            )
            return await self._tree.start(request)

        return await self._do(starting)

    async def send(self, target: str, text: str) -> Sent:
        """Ask the tree."""

        async def sending() -> Sent:
            kept = await kept_text(self._blobs, text)
            return await self._tree.send(SendMessage(caller=self._caller, target=target, text=kept))

        return await self._do(sending)

    async def follow_up(self, target: str, text: str | None = None) -> TurnAccepted:
        """Ask the tree."""

        async def following() -> TurnAccepted:
            kept = None if text is None else await kept_text(self._blobs, text)
            return await self._tree.follow_up(FollowUp(caller=self._caller, target=target, text=kept))

        return await self._do(following)

    async def read(self, target: str = "", *, key: str = "") -> Updates:
        """Ask the tree, and fetch the texts."""

        async def reading() -> Updates:
            updates = await self._tree.read(ReadUpdates(caller=self._caller, key=key, target=target))
            found = [await self._with_text(one) for one in updates.completions]
            return updates.model_copy(update={"completions": tuple(found)})

        return await self._do(reading)

    @property
    def read_done(self) -> PlainSignal:
        """Of all that this call has read."""
        done = ReadDone(task_id=self._input.task_id)
        return PlainSignal(workflow_id=self._tree.id, name=READ_DONE, value=done.model_dump(mode="json"))

    async def interrupt(self, target: str, *, key: str = "") -> Interrupted:
        """Ask the tree."""
        request = Interrupt(caller=self._caller, target=target, key=key)
        return await self._do(lambda: self._tree.interrupt(request))

    async def report(self, text: str) -> str:
        """A raw entry of the parent's conversation, named by this call."""

        async def reporting() -> str:
            if self.is_root:
                raise ValueError("nobody is above the root to report to: answer instead")
            own, parent_id, parent_path = await self._above()
            await self._require_open(parent_id, parent_path)
            limit = (await self._tree.snapshot()).settings.max_output_bytes
            content = head_of(text, limit)
            note = f"\n\n[{content.dropped_bytes} more bytes were left out]" if content.is_cut else ""
            await self._harness.conversation(parent_id).write(
                f"[A report of the agent {own}, not of a person]\n{content.text}{note}",
                kind="user",
                request_id=f"report-{digest(self._input.task_id)}",
            )
            await self._tree.reported(Reported(caller=self._caller))
            return parent_path

        return await self._do(reporting)

    async def _require_open(self, parent_id: str, path: str) -> None:
        """To write to a conversation that is over would begin another one under its id."""
        client = self._harness.client
        if await is_over(client, parent_id) or (await self._harness.agents(parent_id)).id != self._tree.id:
            raise AgentRefused("unknown_target", f"{path} is over, and reads no report")

    async def _above(self) -> tuple[str, str, str]:
        """The own path; conversation and path of the parent."""
        by_path = {row.path: row.agent_id for row in (await self._tree.list()).agents}
        own = next(path for path, agent_id in by_path.items() if agent_id == self._input.conversation_id)
        parent = own.rpartition("/")[0]
        return own, by_path.get(parent, self._tree.root), parent

    async def _with_text(self, completion: Completion) -> Completion:
        if not completion.blob:
            return completion
        kept = Text(blob=completion.blob, characters=0, utf8_bytes=completion.utf8_bytes)
        return completion.model_copy(update={"text": await read_text(self._blobs, kept), "blob": ""})

    async def _child(self, name: str) -> Agent:
        """What the child begins with; of an agent that is not there nothing: the tree refuses it."""
        snapshot = await self._tree.snapshot()
        definition = snapshot.find(name)
        try:
            return Agent() if definition is None else await self._choices(definition, snapshot)
        except Refused as refused:
            raise AgentRefused(refused.refusal.code, refused.refusal.text) from None

    async def _choices(self, definition: AgentDefinition, snapshot: Snapshot) -> Agent:
        settings = snapshot.settings
        parent = self._input.agent
        installed = [_installed(one) for one in self._registry.chosen(parent).extensions]
        chosen = child_extensions(parent.extensions, installed, inherit=settings.inherit_extensions)
        return child_agent(
            definition,
            parent,
            installed,
            active=await self._active(self._registry.chosen(Agent(extensions=chosen))),
            models=self._models,
            inherit=settings.inherit_extensions,
            mode=settings.runtime_mode,
            may_delegate=await self._depth() + 1 < settings.max_depth,
        )

    async def _depth(self) -> int:
        return depth(ROOT if self.is_root else (await self._above())[0])

    async def _active(self, registry: Registry) -> tuple[str, ...]:
        """The tools that the application and the extensions of a child leave active; those of ours are not asked."""
        others = registry.without(SUBAGENTS)
        asked = OfferAsked(
            conversation_id=self._input.conversation_id,
            generation_id=self._caller.generation_id,
            tree_id=self._tree.id,
            agent=self._registry.resolved(self._input.agent),
            harness=self._harness,
        )
        offer = await Offering().ask(others, asked, Prompt(), Reports())
        return tuple(tool.name for tool in offer.tools)

    async def _do(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        found: R = await asyncio.wrap_future(self._at_home(lambda: asyncio.create_task(work())))
        return found


def _installed(extension: Extension) -> Installed:
    hooks = extension.hooks
    guards = bool(extension.wraps) or (hooks is not None and hooks.before_tool is not None)
    return Installed(extension.name, tuple(tool.name for tool in extension.tools), is_guard=guards)
