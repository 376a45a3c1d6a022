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
from activities.runner import stop_reason
from activities.stopping import stop_calls
from tarry.client.lists import literal
from tarry.core.keeping import ADOPT, DIGEST_MEMO, LEAVE_BEHIND, Adopted, AdoptInput, LeaveBehind, LeftBehind
from tarry.core.protocol import Progress

_CALL = re.compile(r"t(\d+)\.(\d+)(~\d+)?")
"""The last part of the id of a run's call: its turn, its slot, and which of several timelines'."""

_NOT_MADE_AGAIN = "its run was reset, and has not made this call again"


@dataclass(frozen=True)
class _Earlier:
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
        """Stop the calls of earlier timelines that the model has not made again, and wait for their ends.

        As long as it makes the same ones, those of later turns are left alone: they may be made again too.
        """
        found = [call async for call in self._calls(input.generation_id)]
        if input.ends:
            await stop_calls([call.handle for call in found if call.is_open], _NOT_MADE_AGAIN)
            return LeftBehind(has_parted=True)
        earlier = [call for call in found if call.turn >= input.turn]
        here = [call for call in earlier if call.turn == input.turn]
        known = {slot: {call.digest for call in here if call.slot == slot} for slot in {call.slot for call in here}}
        is_same = known.keys() == input.made.keys() and all(made in known[slot] for slot, made in input.made.items())
        unwanted = [
            call.handle
            for call in earlier
            if call.is_open and (input.made.get(call.slot) != call.digest if call.turn == input.turn else not is_same)
        ]
        await stop_calls(unwanted, _NOT_MADE_AGAIN)
        return LeftBehind(has_parted=not is_same or len(earlier) == len(here))

    async def _calls(self, generation_id: str) -> AsyncIterator[_Earlier]:
        async for found in self._client.list_workflows(f"ParentWorkflowId = {literal(generation_id)}"):
            if (place := _CALL.fullmatch(found.id.removeprefix(f"{generation_id}/"))) is None:
                continue
            yield _Earlier(
                turn=int(place[1]),
                slot=int(place[2]),
                digest=await found.memo_value(DIGEST_MEMO, ""),
                is_open=found.status == WorkflowExecutionStatus.RUNNING,
                handle=self._client.get_workflow_handle(found.id),
            )
