"""The compactions of a conversation: who asked, which one is under way, and what became of each (spec §11.3).

Pure. One at a time, in the order in which they were asked for. A summary is a write as any other: it is placed at the
next boundary, never inside a turn, and is stale when a newer head marker keeps less than it would (spec §6.6).
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from tarry.core.compaction_protocol import CompactInput, NoSummary, Summary
from tarry.core.compaction_view import CompactionReason, CompactionStatus, CompactionView
from tarry.core.inbox import DETAIL_LIMIT, OWN_IDS, Full
from tarry.core.messages import Frozen
from tarry.core.protocol import RunSettings, SubmitInput, digest
from tarry.core.summaries import framed
from tarry.core.transcript import Position
from tarry.core.writes import STALE, Write

# All of these decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
MAX_WAITING = 20
"""Compactions that may be asked for and not be over."""
REMEMBERED = 20
"""Compactions that are over and can still be looked at."""
NO_PROGRESS_LIMIT = 3
"""Compactions in a row that made nothing smaller; then none begins by itself until one does."""


MAX_NAMED = 150
"""Characters of a compaction's name that stand in the request ids of what it writes; a longer one as its digest."""


def summary_id(request_id: str) -> str:
    """The request id of the summary of the compaction of that name; those of its notes begin with it."""
    return OWN_IDS[0] + (request_id if len(request_id) <= MAX_NAMED else digest(request_id))


class Asked(Frozen):
    """What is to be compacted: up to `cutoff`, of which the run `generation_id` may own the end."""

    request_id: str
    reason: CompactionReason
    settings: RunSettings
    instructions: str = ""
    generation_id: str = ""
    run_start: Position | None = None
    cutoff: Position | None = Field(default=None, description="None: the end of the conversation when it begins")


class Compactions(BaseModel):
    """Carried by the conversation."""

    asked: list[Asked] = Field(default_factory=list, description="the first one is under way")
    views: dict[str, CompactionView] = Field(default_factory=dict, description="by request id, oldest first")
    number: int = Field(default=0, description="of those that began by themselves")
    fruitless: int = Field(default=0, description="in a row, of those that began by themselves")

    def ask(self, input: CompactInput) -> CompactionView:
        """A person asks. A known request id asks for nothing new.

        Raises:
            Full: too many are asked for.
        """
        if (known := self.views.get(input.request_id)) is not None:
            return known
        self.check_room()
        return self._add(
            Asked(
                request_id=input.request_id, reason="manual", settings=input.settings, instructions=input.instructions
            )
        )

    def check_room(self) -> None:
        """Whether one more can be asked for.

        Raises:
            Full: it cannot.
        """
        if len(self._open()) >= MAX_WAITING:
            raise Full(f"{MAX_WAITING} compactions are asked for already; wait until some are over")

    def ask_by_itself(
        self,
        settings: RunSettings,
        *,
        generation_id: str = "",
        run_start: Position | None = None,
        cutoff: Position | None = None,
    ) -> None:
        """The context has grown large: one begins, unless one is there or the last ones made nothing smaller."""
        if self._open() or self.fruitless >= NO_PROGRESS_LIMIT:
            return
        self.number += 1
        self._add(
            Asked(
                request_id=f"background-{self.number}",
                reason="background",
                settings=settings,
                generation_id=generation_id,
                run_start=run_start,
                cutoff=cutoff,
            )
        )

    def _open(self) -> list[CompactionView]:
        return [view for view in self.views.values() if not view.is_over]

    def _add(self, asked: Asked) -> CompactionView:
        self.asked.append(asked)
        view = CompactionView(request_id=asked.request_id, reason=asked.reason)
        self.views[asked.request_id] = view
        over = [request_id for request_id, known in self.views.items() if known.is_over]
        for request_id in over[: max(len(over) - REMEMBERED, 0)]:
            del self.views[request_id]
        return view

    def show(self, request_id: str, status: CompactionStatus, **facts: object) -> None:
        """What is to be seen of one."""
        if (view := self.views.get(request_id)) is not None:
            detail = str(facts.get("detail", view.detail))[:DETAIL_LIMIT]
            changes = {"status": status, "retry_at": None, **facts, "detail": detail}
            self.views[request_id] = view.model_copy(update=changes)

    def ended(self, answer: Summary | NoSummary) -> list[SubmitInput]:
        """The one that is under way has brought this; what is to be written into the transcript."""
        asked = self.asked.pop(0)
        if asked.reason == "background":
            made_progress = isinstance(answer, Summary) or answer.why == "aborted"
            self.fruitless = 0 if made_progress else self.fruitless + 1
        summary = summary_id(asked.request_id)
        names = [f"{summary}:{number}" for number in range(len(answer.problems))]
        notes = [
            SubmitInput(content=problem, request_id=name, write=Write(kind="note"))
            for name, problem in zip(names, answer.problems, strict=True)
        ]
        if isinstance(answer, NoSummary):
            self.show(asked.request_id, answer.why, detail=answer.detail)
            return notes
        self.fruitless = 0
        self.show(asked.request_id, "waiting", before=answer.before, after=answer.after)
        write = Write(kind="compaction", head=answer.head)
        return [*notes, SubmitInput(content=framed(answer.text), request_id=summary, write=write)]

    def placed(self, request_id: str, entry: int) -> None:
        """A write has been placed as this entry, or was `STALE`; it may be a summary."""
        if entry == STALE:
            self.show(self._written_by(request_id), "stale", detail="a newer head marker keeps less than it would")
        else:
            self.show(self._written_by(request_id), "placed", entry=entry)

    def withdrawn(self, request_id: str) -> None:
        """A write has been taken back before it was placed; it may be a summary."""
        self.show(self._written_by(request_id), "aborted", detail="its summary was withdrawn")

    def _written_by(self, request_id: str) -> str:
        """The compaction whose summary has that request id; empty: none that is remembered."""
        return next((name for name in self.views if summary_id(name) == request_id), "")

    def withdraw(self, after: int) -> None:
        """A Stop ends those that are asked for, but for the first `after`; summaries that are there stay."""
        for asked in self.asked[after:]:
            self.show(asked.request_id, "aborted", detail="stopped")
        del self.asked[after:]
