"""How old entries and settled submissions move into the store: sealed pages and archives."""

from __future__ import annotations

import contextlib

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from tarry.core.commits import CommitInput, named_inputs
from tarry.core.conversation import ConversationState
from tarry.core.folding import FOLD, FoldInput, foldable, with_folded
from tarry.core.inbox import Inbox, Record, unpack
from tarry.core.keeping import (
    ARCHIVE,
    FIND_SUBMISSION,
    SEAL,
    Archived,
    ArchiveInput,
    FindSubmissionInput,
    FoundSubmission,
    SealInput,
)
from tarry.core.protocol import INVALID, digest
from tarry.core.transcript import PageRef, Transcript
from workflows import ends, options, patches
from workflows.supervise import StopSwitch


async def seal(transcript: Transcript, stop: StopSwitch) -> None:
    """Write the open tail into a page, pulled by query rather than pushed (spec §6.2). A Stop leaves it open."""
    try:
        answer = await stop.watch(
            workflow.start_activity(
                SEAL,
                SealInput(workflow_id=workflow.info().workflow_id, first=transcript.tail_start, upto=transcript.end),
                result_type=RawValue,
                **options.STORE,
            )
        )
    except ActivityError:
        return
    page = ends.read(answer, PageRef)
    if page is not None:
        transcript.seal(page)


async def fold(transcript: Transcript, stop: StopSwitch | None = None) -> None:
    """Write the oldest page references into pages of their own, as long as there are many (spec §8.2).

    A Stop leaves them as they are.
    """
    while pages := foldable(transcript.pages):
        try:
            work = workflow.start_activity(FOLD, FoldInput(pages=pages), result_type=RawValue, **options.STORE)
            answer = await (work if stop is None else stop.watch(work))
        except ActivityError:  # by that Stop, or somebody ended it by hand
            return
        page = ends.read(answer, PageRef)
        fewer = transcript.pages if page is None else with_folded(transcript.pages, page)
        if fewer == transcript.pages:
            return
        transcript.pages = fewer


async def find_submission(inbox: Inbox, request_id: str) -> Record | None:
    """The record of a request id, wherever it is kept by now (spec §7.1)."""
    if (record := inbox.find(request_id)) is not None or not inbox.archive:
        return record
    wanted = FindSubmissionInput(refs=tuple(reversed(inbox.archive)), key=digest(request_id))
    if not patches.FOUND_BY_ACTIVITY.is_passed():
        # One that meets a query in its workflow task replays in another order than it ran.
        with contextlib.suppress(ActivityError):
            local: FoundSubmission = await workflow.execute_local_activity(
                FIND_SUBMISSION, wanted, result_type=FoundSubmission, **options.LOOKUP
            )
            return unpack(request_id, local.record) if local.record is not None else None
    answer = await workflow.execute_activity(FIND_SUBMISSION, wanted, result_type=RawValue, **options.STORE)
    return _found(request_id, ends.read(answer, FoundSubmission))


async def find_archived(inbox: Inbox, commit: CommitInput) -> list[Record]:
    """The records of a commit's inputs that only the archive knows."""
    names = [name for name in named_inputs(commit) if inbox.archive and inbox.find(name) is None]
    if not names or not patches.ARCHIVED_IN_COMMITS.is_passed():
        return []
    found = [await find_submission(inbox, name) for name in names]
    return [record for record in found if record is not None]


def _found(request_id: str, found: FoundSubmission | None) -> Record | None:
    """Whoever completed the look-up by hand may have said anything; only its sender hears of that."""
    try:
        if found is not None:
            return unpack(request_id, found.record) if found.record is not None else None
    except ValueError:
        pass
    raise ApplicationError("the archive of submissions could not be read; submit it again", type=INVALID)


async def archive_settled(state: ConversationState) -> bool:
    """Move the oldest settled submissions to the archive (spec §7.1); False when somebody ended that by hand."""
    records = state.inbox.oldest_settled()
    try:
        answer = await workflow.execute_activity(
            ARCHIVE,
            ArchiveInput(ref=state.inbox.archive[-1] if state.inbox.archive else "", records=records),
            result_type=RawValue,
            **options.STORE,
        )
    except ActivityError:
        return False
    archived = ends.read(answer, Archived)
    if archived is None or (archived.extends and not state.inbox.archive):
        return False
    state.inbox.archived(records, archived.ref, extends=archived.extends)
    return True
