"""New choices for a conversation: taken at any time, and told to the run that is open (spec §7.6).

A run takes them up with its next request; nothing that is under way is touched.
"""

from __future__ import annotations

import contextlib

from temporalio import workflow
from temporalio.exceptions import FailureError

from tarry.core.agent import Agent, AgentChange
from tarry.core.choices import CHOICES, CONFIGURE
from tarry.core.conversation import ConversationState
from workflows.conversation.room import Room


class Choosing:
    """Keeps an open run up to date. Nothing is sent unless somebody has configured the conversation."""

    def __init__(self, state: ConversationState, room: Room) -> None:
        self._state = state
        self._room = room
        self._is_telling = False
        self._is_leaving = False
        workflow.set_update_handler(CONFIGURE, self._configure, validator=self._check)

    def _check(self, _change: AgentChange) -> None:
        self._room.check_update()

    async def _configure(self, change: AgentChange) -> Agent:
        """Take new choices; returns once the open run knows them, so that its next request goes by them."""
        self._room.updates += 1
        self._state.configure(change)
        await self.told()
        return self._state.choices.agent

    async def told(self) -> None:
        """Return once the open run knows all choices."""
        await workflow.wait_condition(lambda: not self._must_tell and not self._is_telling)

    async def serve(self) -> None:
        """Tell the open run of each change, for ever."""
        while True:
            await workflow.wait_condition(lambda: self._state.is_run_behind and self._is_begun)
            self._is_telling = True
            await self._tell()
            self._is_telling = False

    def leave(self, *, is_leaving: bool) -> None:
        """The workflow turns over, or goes on after all. Before it turns over it waits for those who configure it."""
        self._is_leaving = is_leaving

    @property
    def _must_tell(self) -> bool:
        """Whether the open run does not know of a change; one that begins after the turn is not there to be told."""
        return self._state.is_run_behind and (self._is_begun or not self._is_leaving)

    @property
    def _is_begun(self) -> bool:
        return self._state.open is not None and self._state.open.is_begun

    async def _tell(self) -> None:
        told = self._state.tell_choices()
        assert self._state.open is not None
        # A run that has just ended needs no telling.
        with contextlib.suppress(FailureError):
            await workflow.get_external_workflow_handle(self._state.open.generation_id).signal(CHOICES, told)
