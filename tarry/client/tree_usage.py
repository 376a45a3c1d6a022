"""What a root conversation and all agents below it have spent (spec §17.9)."""

from __future__ import annotations

import asyncio

from tarry.client.errors import NoSuchAgents, NoSuchConversation
from tarry.client.harness import Harness
from tarry.core.ledger import Ledger
from tarry.core.subagents.paths import ROOT

AT_A_TIME = 8
"""Conversations that are asked at the same time."""


async def tree_usage(harness: Harness, conversation_id: str) -> dict[str, Ledger]:
    """What each of them has spent itself, up to now, by paths: of the conversation first, then of all below it.

    Needs a worker. An agent that has not begun yet has spent nothing.

    Raises:
        NoSuchConversation: nothing with that id.
        ServerUnavailable: no server answers, or no worker.
    """
    own = await harness.conversation(conversation_id).usage()
    try:
        listed = await (await harness.agents(conversation_id)).list(conversation_id)
    except NoSuchAgents:
        return {ROOT: own}
    places = asyncio.Semaphore(AT_A_TIME)

    async def spent(agent_id: str) -> Ledger:
        async with places:
            try:
                return await harness.conversation(agent_id).usage()
            except NoSuchConversation:
                return Ledger()

    ledgers = await asyncio.gather(*(spent(row.agent_id) for row in listed.agents))
    return {listed.path: own, **{row.path: ledger for row, ledger in zip(listed.agents, ledgers, strict=True)}}
