"""What running code may do with the agents below its conversation (spec §17)."""

from __future__ import annotations

from typing import Any, Protocol

from tarry.core.protocol import PlainSignal
from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.protocol import (
    AgentList,
    ContextPolicy,
    Interrupted,
    Sent,
    Started,
    TurnAccepted,
    Updates,
)


class TreeApi(Protocol):
    """The tree of agents that a call's conversation is part of, for async code.

    A call asks for one thing of a kind: asked again, as after a crash, it is answered as before, and nothing happens a
    second time. A `key` names a key of `AGENT_UPDATE` of this call, to sleep on.

    Every method raises `AgentRefused`, which says what to do instead, `NoSuchAgents` where there is no tree,
    `ServerUnavailable` when nobody answers, and `StaleRun` when this run was given up.
    """

    @property
    def is_root(self) -> bool:
        """Whether the conversation is the one at the root, and no subagent."""
        ...

    async def snapshot(self) -> Snapshot:
        """The catalogue and the settings that count."""
        ...

    async def list(self) -> AgentList:
        """All agents below the conversation."""
        ...

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
        """Start a child with its first turn, by the name of its definition.

        Args:
            agent: the name of its definition.
            prompt: what it is to do.
            description: for people, and for its path when it has no `task_name`.
            task_name: the last part of its path.
            context: what it knows of this conversation; nothing by default.
            output: JSON Schema that its answer must fit, at most 16 KiB.
            key: told when its first turn has ended.
        """
        ...

    async def send(self, target: str, text: str) -> Sent:
        """Put a message into the mailbox of a direct child, by its path or id; it starts nothing."""
        ...

    async def follow_up(self, target: str, text: str | None = None) -> TurnAccepted:
        """Start one turn of a direct child with all that waits in its mailbox, `text` put there first."""
        ...

    async def read(self, target: str = "", *, key: str = "") -> Updates:
        """How turns of direct children ended, of all or of one, with their texts; each is read once.

        Read when this call has a result that is no error; given back when it is over without one. The key is told when
        there is something, unless there is now.
        """
        ...

    @property
    def read_done(self) -> PlainSignal:
        """What a result carries that tells what was read, so that this counts as read at once (spec §17.13)."""
        ...

    async def interrupt(self, target: str, *, key: str = "") -> Interrupted:
        """Stop what a descendant does, and all below it; the key is told when that is over.

        The target `$own` is the agent that this very call has started.
        """
        ...

    async def report(self, text: str) -> str:
        """Put a text where the model of the parent reads it at its next turn; no turn begins for it. The parent's path.

        Raises:
            ValueError: it is the root that reports.
        """
        ...


class AgentsApi(Protocol):
    """Agents."""

    @property
    def agents(self) -> TreeApi:
        """The agents below this task's conversation.

        Raises:
            StaleRun: this run was given up.
        """
        ...
