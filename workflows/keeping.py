"""How a conversation moves what is old into the store: sealed pages and archived submissions."""

from __future__ import annotations

from temporalio import workflow

from tarry.core.conversation import ConversationState
from tarry.core.protocol import ARCHIVE, SEAL, Archived, ArchiveInput, SealInput
from tarry.core.transcript import PageRef, Transcript
from workflows import options


async def seal(transcript: Transcript) -> None:
    """Write the open tail into a page, pulled by query rather than pushed (spec §6.2)."""
    page = await workflow.execute_activity(
        SEAL,
        SealInput(workflow_id=workflow.info().workflow_id, first=transcript.tail_start, upto=transcript.end),
        result_type=PageRef,
        **options.STORE,
    )
    transcript.seal(page)


async def archive_settled(state: ConversationState) -> None:
    """Move the oldest settled submissions to the archive (spec §7.1)."""
    records = state.inbox.oldest_settled()
    archived = await workflow.execute_activity(
        ARCHIVE,
        ArchiveInput(ref=state.inbox.archive[-1] if state.inbox.archive else "", records=records),
        result_type=Archived,
        **options.STORE,
    )
    state.inbox.archived(records, archived.ref, extends=archived.extends)
