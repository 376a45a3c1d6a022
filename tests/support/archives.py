"""A conversation with more settled submissions than it keeps by itself."""

from __future__ import annotations

import asyncio

from tarry.client import Conversation
from tarry.core.inbox import RECENT
from tarry.core.protocol import ABORT, SUBMISSION, SUBMIT, SubmissionLookup, SubmitInput
from tests.support.stage import Stage
from tests.support.waiting import eventually


async def fill_archive(conversation: Conversation, on: Stage) -> None:
    """Answer an input `r0`, then withdraw enough others, `w0` and on, for it to be archived. No worker may run yet."""
    async with on.worker():
        await (await conversation.submit("x", request_id="r0")).wait()
    handle = on.client.get_workflow_handle(conversation.id)
    inputs = [SubmitInput(content=f"withdrawn {n}", request_id=f"w{n}") for n in range(RECENT + 2)]
    await asyncio.gather(*(handle.signal(SUBMIT, input) for input in inputs))
    await handle.signal(ABORT)
    async with on.worker():
        await archived(conversation, on, "r0")


async def archived(conversation: Conversation, on: Stage, request_id: str) -> None:
    """Return when the conversation itself does not hold that submission any more."""
    handle = on.client.get_workflow_handle(conversation.id)

    async def look_up() -> SubmissionLookup:
        found: SubmissionLookup = await handle.query(SUBMISSION, request_id, result_type=SubmissionLookup)
        return found

    await eventually(look_up, lambda found: found.submission is None and bool(found.archive))
