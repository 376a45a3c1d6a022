"""Moving what is old into the store, and finding it there again."""

from __future__ import annotations

import contextlib

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from activities.stopping import stop_calls
from tarry.asking import ask
from tarry.client.lists import literal
from tarry.core.folding import FOLD, FoldInput, PageIndex, folded
from tarry.core.keeping import (
    ARCHIVE,
    FIND_SUBMISSION,
    SALVAGE,
    SEAL,
    TERMINATE,
    Archived,
    ArchiveInput,
    FindSubmissionInput,
    FoundSubmission,
    Salvaged,
    SalvageInput,
    SealInput,
    TerminateInput,
)
from tarry.core.protocol import VIEW
from tarry.core.transcript import Page, PageRef, sealed
from tarry.core.views import GenerationView
from tarry.entries import EntryReader
from tarry.store import BlobStore

ARCHIVE_RECORDS = 4_096
"""Records in one archive; the next one begins another."""


class KeepingActivities:
    """Each may run again at any time: the store is content-addressed."""

    def __init__(self, client: Client, blobs: BlobStore, reader: EntryReader) -> None:
        self._client = client
        self._blobs = blobs
        self._reader = reader

    @activity.defn(name=SEAL)
    async def seal(self, input: SealInput) -> PageRef:
        """Pull the entries by query and write them into one page (spec §6.2)."""
        entries = await self._reader.read(input.workflow_id, input.first, input.upto)
        return sealed(await self._blobs.put(Page(entries=tuple(entries))), entries)

    @activity.defn(name=FOLD)
    async def fold(self, input: FoldInput) -> PageRef:
        """Write references of pages into one page (spec §8.2)."""
        return folded(input.pages, await self._blobs.put(PageIndex(pages=input.pages)))

    @activity.defn(name=ARCHIVE)
    async def archive(self, input: ArchiveInput) -> Archived:
        """Add records to the newest archive, or begin another when that one is full (spec §7.1)."""
        kept = await self._blobs.get(input.ref, dict[str, str]) if input.ref else {}
        extends = bool(input.ref) and len(kept) < ARCHIVE_RECORDS
        records = {**kept, **input.records} if extends else input.records
        return Archived(ref=await self._blobs.put(records), extends=extends)

    @activity.defn(name=FIND_SUBMISSION)
    async def find_submission(self, input: FindSubmissionInput) -> FoundSubmission:
        """The packed record of a request id (spec §7.1)."""
        return FoundSubmission(record=await self._reader.archived(input.refs, input.key))

    @activity.defn(name=SALVAGE)
    async def salvage(self, input: SalvageInput) -> Salvaged:
        """What a run that ended without a result still holds; its workflow answers queries after its end.

        Its calls are stopped first, and ended by force when they take too long, so that the next run does not begin
        while they act (spec §6.2).
        """
        await self._drain(input.generation_id)
        view = await ask(self._client, input.generation_id, VIEW, GenerationView)
        first = view.pages[-1].last if view.pages else input.start
        entries = await self._reader.read(input.generation_id, first, view.end)
        return Salvaged(
            pages=view.pages,
            entries=tuple(entries),
            usage=view.usage,
            spent=view.spent,
            placed=view.placed,
            places=view.places,
            after_run=view.after_run,
        )

    @activity.defn(name=TERMINATE)
    async def terminate(self, input: TerminateInput) -> None:
        """End workflows by force; those that are over stay as they are."""
        for workflow_id in input.workflow_ids:
            with contextlib.suppress(RPCError):
                await self._client.get_workflow_handle(workflow_id).terminate(reason="it did not stop in time")

    async def _drain(self, generation_id: str) -> None:
        query = f'ParentWorkflowId = {literal(generation_id)} AND ExecutionStatus = "Running"'
        calls = [self._client.get_workflow_handle(found.id) async for found in self._client.list_workflows(query)]
        await stop_calls(calls, "its run ended without a result")
