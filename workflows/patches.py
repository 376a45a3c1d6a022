"""Changes to what workflows command, each guarded so that what was begun before it still replays (spec §1.4, §22.4).

All ids stand here, each with an end: the first day on which its question may be taken out of the code, if then nothing
is left that was begun before the change. `make patches` tells what is due, docs/deploying.md how one goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from temporalio import workflow

from tarry.core.protocol import CONVERSATION, DURABLE_TASK, GENERATION, TOOL_CALL
from tarry.core.subagents.protocol import AGENTS

OPEN_FOR = timedelta(days=365)
"""How long what was begun before a change may be expected to be open, longest parks included."""
KEPT_FOR = timedelta(days=30)
"""How long a server keeps it after its end (`tarry.namespaces.RETENTION`): it may be reset, or looked into."""


@dataclass(frozen=True)
class Patch:
    """A guarded change.

    Attributes:
        id: stands in histories for ever, so it is never used for another change.
        since: the day of the change.
        until: the first day on which its question may go.
        types: the workflows whose commands it changes.
        what: the change, and where it is not asked for.
    """

    id: str
    since: date
    until: date
    types: tuple[str, ...]
    what: str

    def is_passed(self) -> bool:
        """Whether this workflow goes the new way: it was begun, or comes here first, under code with the change.

        Noted in its history, and the same answer in every replay. Only for workflow code.
        """
        return workflow.patched(self.id)


MAIL = Patch(
    id="mail",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="Conversations tell an open run that something is queued, where they left it to its end before.",
)
STEERS = Patch(
    id="steers",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="They tell it of a steer also where they have told it of a write.",
)
LATE_WATCHERS = Patch(
    id="late-watchers",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(TOOL_CALL, DURABLE_TASK),
    what="Who asks a task to tell of its end while that is under way is told, too.",
)
NOTED_ENDS = Patch(
    id="noted-ends",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="The end of a run leaves an event in its conversation. Those whose input says so need no marker for it.",
)
BY_BOUNDARY = Patch(
    id="by-boundary",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="A final boundary may take several inputs, notes of commits are writes. Not asked where the input says so.",
)
FOUND_BY_ACTIVITY = Patch(
    id="found-by-activity",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="Archived submissions are looked up by an ordinary activity, where a local one did it before.",
)
ARCHIVED_IN_COMMITS = Patch(
    id="archived-in-commits",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="Commits look up request ids that only the archive knows. Asked only where there may be such a one.",
)
CHOICES_OF_STEERS = Patch(
    id="choices-of-steers",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="Choices that come with a steer count from its place. Asked only where there are some.",
)
STOPPED_LARGE = Patch(
    id="stopped-large",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="No compaction begins by itself for a run that a Stop came together with. Asked only of a large one.",
)
ROOM = Patch(
    id="room",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="A conversation that has taken in all that it may refuses plain signals too. Asked only then.",
)
OVERTAKEN = Patch(
    id="overtaken",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="Steers that a Stop overtakes stand behind the run that it stopped. Asked only where there are some.",
)
BARE_RELOADS = Patch(
    id="bare-reloads",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(AGENTS,),
    what="A tree refuses a reload that does not say which agents there are to be. Asked only of such a one.",
)
LOOKED_AFTER = Patch(
    id="looked-after",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(GENERATION,),
    what="A run of a subagent that was stopped without a reason has its tree looked after. Asked only of such a one.",
)
BEGUN_AGAIN = Patch(
    id="begun-again",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(GENERATION,),
    what="A run of a subagent that was reset asks for its permit anew. Asked only of such a one.",
)
DECIDED = Patch(
    id="decided",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(TOOL_CALL, DURABLE_TASK),
    what="Lists are told what a person decided. Asked only where a delivery that tells of one ended a park.",
)
FORGOTTEN = Patch(
    id="forgotten",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="What a run has placed and a reset made its conversation forget is known again. Asked only of such a run.",
)
ADOPTED_ABORTS = Patch(
    id="adopted-aborts",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(TOOL_CALL, DURABLE_TASK),
    what="A child task that was adopted and ended without success or words counts as failed. Asked only of such a one.",
)
LATE_LOOKUPS = Patch(
    id="late-lookups",
    since=date(2026, 11, 30),
    until=date(2028, 1, 1),
    types=(CONVERSATION,),
    what="An input that a Stop overtook while it was looked up ends alone. Asked only where others have come since.",
)

PATCHES = (
    MAIL,
    STEERS,
    LATE_WATCHERS,
    NOTED_ENDS,
    BY_BOUNDARY,
    FOUND_BY_ACTIVITY,
    ARCHIVED_IN_COMMITS,
    CHOICES_OF_STEERS,
    STOPPED_LARGE,
    ROOM,
    OVERTAKEN,
    BARE_RELOADS,
    LOOKED_AFTER,
    BEGUN_AGAIN,
    DECIDED,
    FORGOTTEN,
    ADOPTED_ABORTS,
    LATE_LOOKUPS,
)
"""All of them."""
