"""What a conversation chose, and when: its choices now, and those that counted as of an entry (spec §7.6).

Pure. A log of the newest changes is kept, so that a fork can begin with the choices of its place.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from tarry.core.agent import Agent, AgentChange
from tarry.core.messages import Frozen

CONFIGURE = "tarry.configure"
"""Update, or plain signal: an `AgentChange`; the update returns the choices after it."""
CHOICES = "tarry.choices"
"""Plain signal to an open run: a `ChoicesTold`."""

MAX_LOG = 50
MAX_LOG_BYTES = 16 * 1024
"""Of what is not in force any more."""


class Choice(Frozen):
    """Choices that were made when the transcript had `entry` entries; `number` counts them, from 0."""

    agent: Agent = Agent()
    entry: int = 0
    number: int = 0


class ChoicesTold(Frozen):
    """What an open run is told: the choices that count from its next request. The highest number counts."""

    number: int
    agent: Agent


class Choices(BaseModel):
    """The log, oldest first; the last one is in force."""

    log: list[Choice] = Field(default_factory=lambda: [Choice()], min_length=1)

    @property
    def agent(self) -> Agent:
        """The choices now."""
        return self.log[-1].agent

    @property
    def number(self) -> int:
        """How often they have changed."""
        return self.log[-1].number

    def as_of(self, entry: int) -> Agent:
        """The choices that counted when entry `entry` was written; the oldest known ones for one before these."""
        return next((choice.agent for choice in reversed(self.log) if choice.entry <= entry), self.log[0].agent)

    def forked(self, at: int, agent: Agent | None) -> Choices:
        """Those that a fork begins with: as of that entry, and those before; then `agent`, if given, instead."""
        log = [choice for choice in self.log if choice.entry <= at] or self.log[:1]
        if agent is not None:
            log.append(Choice(agent=agent, entry=at, number=log[-1].number + 1))
        return Choices(log=_bounded(log))

    def choose(self, change: AgentChange, entry: int) -> None:
        """Change them where the transcript has `entry` entries; what changes nothing leaves no trace."""
        agent = change.applied_to(self.agent)
        if agent != self.agent:
            self.log = _bounded([*self.log, Choice(agent=agent, entry=entry, number=self.number + 1)])

    def place(self, places: dict[int, int], since: int, end: int) -> None:
        """A run is over that knew the choices up to number `since`: say at which entries it took up later ones.

        Those that it did not take up any more were made at its `end`.
        """
        self.log = [
            choice.model_copy(update={"entry": min(places.get(choice.number, end), end)})
            if choice.number > since
            else choice
            for choice in self.log
        ]


def _bounded(log: list[Choice]) -> list[Choice]:
    """The newest of the log."""
    kept = log[-1:]
    size = 0
    for choice in reversed(log[:-1]):
        size += len(choice.model_dump_json(exclude_defaults=True).encode())
        if len(kept) == MAX_LOG or size > MAX_LOG_BYTES:
            break
        kept.insert(0, choice)
    return kept
