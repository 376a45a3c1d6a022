"""The permit of a subagent's run: given back while nothing of it executes, wanted when something wakes (spec §17.12).

Pure. Each task of the run, a call or a hook's task and whatever these created, tells when it rests, and which of the
tasks that it created are not over; it asks before it goes on. The run rests when all that is open in it does. What is
to be said next follows from how things stand, so that what comes together is judged together.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen
from tarry.core.text import bound_text

RESTING = "tarry.turn.resting"
"""Plain signal from a task to its run: a `Resting`."""
WAKING = "tarry.turn.waking"
"""Plain signal from a task that rested to its run: a `Waking`. Answered with `GO_ON`."""
GO_ON = "tarry.turn.go-on"
"""Plain signal to a task: its `Waking`, with which it goes on."""

MAX_WAITS_FOR = 500
"""Characters of what a run waits for."""

MAX_EARLY = 1_000
"""Rests of tasks that are not open yet which a run keeps that was begun again."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Resting(Frozen):
    """Nothing of a task's own executes. `alive`: the tasks that it created and that are not over."""

    task_id: str
    alive: tuple[str, ...] = ()
    waits_for: str = Field(default="", max_length=MAX_WAITS_FOR)


class Waking(Frozen):
    """A task was woken and asks whether it may go on; `number` counts how often it has asked."""

    task_id: str
    number: int = 0


class Notice(Frozen):
    """What the tree is to be told of a rest: that it began, or that something wants to go on."""

    kind: Literal["rested", "wants"]
    number: int
    waits_for: str = ""


Word = Notice | Waking
"""Something to say: to the tree, or to a task that it may go on."""


class RunPermit(BaseModel):
    """Whether a run holds its permit, and why.

    `number` names the newest rest, and grows with time, also where a run is begun again from an earlier point. `open`:
    the calls of its round and the tasks of its hooks; `resting`: what tasks told, by place; `waking`: who asks.
    """

    number: int = 0
    holds: bool = True
    has_asked: bool = False
    needs: bool = Field(default=False, description="the run itself wants to go on")
    open: list[str] = Field(default_factory=list)
    resting: dict[str, Resting] = Field(default_factory=dict)
    waking: list[Waking] = Field(default_factory=list)
    is_begun_again: bool = False
    early: dict[str, Resting] = Field(default_factory=dict, description="what tasks told that are not open")

    def ask_first(self, now: datetime) -> None:
        """The run begins without a permit: its turn may rest meanwhile, as far as the tree knows (spec §17.12)."""
        self.holds, self.number, self.needs = False, self._next_number(now), True

    def begin_again(self, now: datetime) -> None:
        """The run goes on from an earlier point: whether it has a permit by now the tree knows, not it (spec §17.12).

        At rest it says so anew; else it asks. Tasks that it has yet to find again may have told already that they rest.
        """
        self.is_begun_again, self.has_asked = True, False
        self.holds = self.is_at_rest
        if not self.holds:
            self.ask_first(now)

    def begin(self, task_id: str) -> None:
        """A call of the round, or a task of a hook, is begun: it executes until it tells that it rests."""
        top = place(task_id)
        self.open.append(top)
        if self.is_begun_again:  # and finds a task that rested before
            self.resting |= {name: told for name, told in self.early.items() if _is_in(name, top)}

    def end(self, task_id: str) -> None:
        """It is over, and so is all that it created."""
        top = place(task_id)
        self.open.remove(top)
        self.resting = {name: told for name, told in self.resting.items() if not _is_in(name, top)}
        self.waking = [asking for asking in self.waking if not _is_in(place(asking.task_id), top)]

    def rest(self, told: Resting) -> None:
        """A task rests. What is not of this run says nothing; but one that was begun again may not have it open yet."""
        name = place(told.task_id)
        if self._is_open(name):
            self.resting[name] = told
        elif len(self.early) < MAX_EARLY:
            self.early[name] = told

    def wake(self, asking: Waking) -> None:
        """A task asks whether it may go on; whoever it is, it is answered."""
        for told in (self.resting, self.early):
            told.pop(place(asking.task_id), None)
        self.waking = [other for other in self.waking if other.task_id != asking.task_id]
        self.waking.append(asking)

    def need(self) -> None:
        """The run itself wants to go on, now that its round is over."""
        self.needs = not self.holds

    def granted(self, number: int) -> None:
        """The tree answers; an answer to another wish than the newest says nothing."""
        if self.has_asked and number == self.number:
            self.holds, self.needs, self.has_asked = True, False, False

    @property
    def is_at_rest(self) -> bool:
        """Whether something is open, and nothing of it executes or wants to."""
        return bool(self.open) and not self.waking and all(self._rests(name) for name in self.open)

    def due(self, now: datetime) -> Word | None:
        """What to say now; None: nothing."""
        if self.holds:
            if self.waking:
                return self.waking[0]
            if self.is_at_rest:
                return Notice(kind="rested", number=self._next_number(now), waits_for=self._waits_for())
        elif (self.waking or self.needs) and not self.has_asked:
            return Notice(kind="wants", number=self.number)
        return None

    def said(self, word: Word) -> None:
        """It is being said: the state follows."""
        if isinstance(word, Waking):
            self.waking.remove(word)
        elif word.kind == "rested":
            self.number, self.holds = word.number, False
        else:
            self.has_asked = True

    def _is_open(self, name: str) -> bool:
        return any(_is_in(name, top) for top in self.open)

    def _rests(self, name: str) -> bool:
        told = self.resting.get(name)
        if told is None:
            return False
        # A task stands below the one that created it; anything else would be somebody's invention.
        return all(_is_below(child, told.task_id) and self._rests(place(child)) for child in told.alive)

    def _next_number(self, now: datetime) -> int:
        return max(self.number + 1, int((now - _EPOCH).total_seconds() * 1000))

    def _waits_for(self) -> str:
        texts = dict.fromkeys(told.waits_for for told in self.resting.values() if told.waits_for)
        return bound_text("; ".join(texts), max_bytes=MAX_WAITS_FOR, max_lines=1).text[:MAX_WAITS_FOR]


def place(task_id: str) -> str:
    """Where a task stands in its run; one that goes on under another id, since its own was used, stands there too."""
    parts = task_id.split("/")
    return "/".join([*parts[:2], *(part.partition("~")[0] for part in parts[2:3]), *parts[3:]])


def _is_in(name: str, top: str) -> bool:
    return name == top or name.startswith(f"{top}/")


def _is_below(task_id: str, owner: str) -> bool:
    return task_id.startswith(f"{owner}/")
