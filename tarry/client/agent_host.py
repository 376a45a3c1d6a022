"""What a person, or the program of a host, asks a tree of agents: any agent of it can be addressed (spec §17.2)."""

from __future__ import annotations

from tarry.client.agents import AgentTree, kept_text
from tarry.core.subagents.protocol import Caller, FollowUp, Interrupt, Interrupted, SendMessage, Sent, TurnAccepted
from tarry.store import BlobStore


class AgentHost:
    """Asks a tree in the name of nobody's run: the agents below `base`, by default below the root.

    Targets are agent ids, or paths, absolute or relative to `base`. A `request_id` makes a repeat recognisable, which
    changes nothing and is answered as the first was; it names one request for ever. Without one each is new.
    """

    def __init__(self, tree: AgentTree, blobs: BlobStore, base: str = "") -> None:
        self._tree = tree
        self._blobs = blobs
        self._base = base or tree.root

    async def send(self, target: str, text: str, *, request_id: str | None = None) -> Sent:
        """Put a message into the mailbox of an agent; it starts nothing. Raises as `AgentTree.start`."""
        kept = await kept_text(self._blobs, text)
        return await self._tree.send(SendMessage(caller=self._caller(request_id), target=target, text=kept))

    async def follow_up(self, target: str, text: str | None = None, *, request_id: str | None = None) -> TurnAccepted:
        """Start a turn of an agent with all that waits in its mailbox, and `text` behind it; an open one takes it up.

        It queues for a permit, and its parent reads how it ended. Raises as `send`.
        """
        kept = None if text is None else await kept_text(self._blobs, text)
        return await self._tree.follow_up(FollowUp(caller=self._caller(request_id), target=target, text=kept))

    async def interrupt(self, target: str, *, request_id: str | None = None) -> Interrupted:
        """Stop what an agent does, and everything below it; its conversation stays. Raises as `AgentTree.start`."""
        return await self._tree.interrupt(Interrupt(caller=self._caller(request_id), target=target))

    def _caller(self, request_id: str | None) -> Caller:
        return self._tree.person(self._base, request_id)
