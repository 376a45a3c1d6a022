"""What earlier timelines of a parent started: taken over, or stopped when it is not wanted any more (spec §1.7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle

from activities.heartbeat import Heartbeat
from activities.listed import surely_listed
from activities.runner import stop_reason
from activities.stopping import stop_calls
from tarry.client.lists import literal
from tarry.core.keeping import ADOPT, DIGEST_MEMO, LEAVE_BEHIND, Adopted, AdoptInput, LeaveBehind, LeftBehind
from tarry.core.protocol import Progress

_CHILD = re.compile(r"([th])(\d+)\.(\d+)(~\d+)?")
"""The last part of the id of a run's call, or of a task of its hooks: turn, slot, and which of several timelines'."""

_NOT_MADE_AGAIN = "its run was reset, and has not made this call again"


@dataclass(frozen=True)
class _Earlier:
    is_call: bool
    turn: int
    slot: int
    digest: str
    is_open: bool
    handle: WorkflowHandle[Any, Any]


class AdoptActivities:
    """Each may run again, after a lost worker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ADOPT)
    async def adopt(self, input: AdoptInput) -> Adopted:
        """The child's result when its arguments are equal; else stop it, wait for its end and say so.

        A Stop of the parent stops the child.
        """
        handle = self._client.get_workflow_handle(input.workflow_id)
        matches = (await (await handle.describe()).memo_value(DIGEST_MEMO, "")) == input.digest
        if not matches:
            await handle.cancel()
        async with Heartbeat(Progress):
            try:
                result = await handle.result()
            except asyncio.CancelledError:
                if stop_reason() != "abort":  # the worker stops, or somebody at a shell paused or reset the activity
                    raise
                await handle.cancel()
                result = await handle.result()
            except WorkflowFailureError:
                result = None
        return Adopted(matches=matches, result=result if matches else None)

    @activity.defn(name=LEAVE_BEHIND)
    async def leave_behind(self, input: LeaveBehind) -> LeftBehind:
        """Stop what earlier timelines started and the model has not called for again, and wait for its ends.

        As long as it makes the same calls, those of later turns and tasks of hooks are left alone: they may come again.
        """
        await surely_listed(self._client, input.generation_id)
        found = [child async for child in self._children(input.generation_id)]
        if input.ends:
            await stop_calls([child.handle for child in found if child.is_open], _NOT_MADE_AGAIN)
            return LeftBehind(has_parted=True)
        earlier = [child for child in found if child.turn >= input.turn]
        here = [child for child in earlier if child.is_call and child.turn == input.turn]
        known = {slot: {call.digest for call in here if call.slot == slot} for slot in {call.slot for call in here}}
        is_same = known.keys() == input.made.keys() and all(made in known[slot] for slot, made in input.made.items())
        unwanted = [
            child.handle
            for child in earlier
            if child.is_open and (input.made.get(child.slot) != child.digest if child in here else not is_same)
        ]
        await stop_calls(unwanted, _NOT_MADE_AGAIN)
        return LeftBehind(has_parted=not is_same or len(earlier) == len(here))

    async def _children(self, generation_id: str) -> AsyncIterator[_Earlier]:
        async for found in self._client.list_workflows(f"ParentWorkflowId = {literal(generation_id)}"):
            if (place := _CHILD.fullmatch(found.id.removeprefix(f"{generation_id}/"))) is None:
                continue
            yield _Earlier(
                is_call=place[1] == "t",
                turn=int(place[2]),
                slot=int(place[3]),
                digest=await found.memo_value(DIGEST_MEMO, ""),
                is_open=found.status == WorkflowExecutionStatus.RUNNING,
                handle=self._client.get_workflow_handle(found.id),
            )
