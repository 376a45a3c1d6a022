"""Names and payloads of keeping: pages, archives, and what is left of a child that ended without its parent.

Pure.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tarry.core.ledger import Ledger
from tarry.core.messages import Frozen, Usage
from tarry.core.transcript import Entry, PageRef, Position

SEAL = "tarry.seal"
ARCHIVE = "tarry.archive"
FIND_SUBMISSION = "tarry.find-submission"
ADOPT = "tarry.adopt"
SALVAGE = "tarry.salvage"
TERMINATE = "tarry.terminate"
LEAVE_BEHIND = "tarry.leave-behind"

DIGEST_MEMO = "tarry.digest"
"""The memo by which a parent recognises a child with the same arguments (spec §1.7)."""


class SealInput(Frozen):
    """Write the entries of `workflow_id` from `first` up to `upto` into a page."""

    workflow_id: str
    first: Position
    upto: Position


class AdoptInput(Frozen):
    """Take over the child `workflow_id` that an earlier timeline started with the arguments of `digest`."""

    workflow_id: str
    digest: str


class Adopted(Frozen):
    """The child's end. `matches`: its arguments were equal; `result`: what it returned, None when it left nothing."""

    matches: bool
    result: Any = None


class LeaveBehind(Frozen):
    """A run that was reset: in its turn `turn` the model has made these calls, by slot the digest of each.

    `ends`: it ends there, so that no call is made any more.
    """

    generation_id: str
    turn: int
    made: dict[int, str]
    ends: bool = False


class LeftBehind(Frozen):
    """`has_parted`: the model made other calls than in an earlier timeline, or there are none left to meet."""

    has_parted: bool


class SalvageInput(Frozen):
    """Fetch what a run without a result still holds, from `start` on."""

    generation_id: str
    start: Position


class Salvaged(Frozen):
    """What could be kept of a lost run."""

    pages: tuple[PageRef, ...] = ()
    entries: tuple[Entry, ...] = ()
    usage: Usage = Usage()
    spent: Ledger = Ledger()
    placed: tuple[str, ...] = ()
    places: dict[str, int] = Field(default={})
    after_run: bool = False


class ArchiveInput(Frozen):
    """Add settled submissions' records to the archive behind `ref`, or begin one."""

    ref: str
    records: dict[str, str]


class Archived(Frozen):
    """The new archive; whether it `extends` the one given, or begins another since that one is full."""

    ref: str
    extends: bool


class FindSubmissionInput(Frozen):
    """Look for the packed record filed under `key`, the archives newest first."""

    refs: tuple[str, ...]
    key: str


class FoundSubmission(Frozen):
    """The packed record, None when no archive holds it."""

    record: str | None


class TerminateInput(Frozen):
    """End these workflows by force."""

    workflow_ids: tuple[str, ...]
