"""A conversation with more settled submissions than it keeps by itself."""

from __future__ import annotations

import asyncio

from tarry.client import Conversation
from tarry.core.inbox import RECENT
from tarry.core.protocol import ABORT, SUBMISSION, SUBMIT, SubmissionLookup, SubmitInput
from tests.support.stage import Stage
from tests.support.waiting import eventually


async def fill_archive(conversation: Conversation, on: Stage) -> None:
    """Settle an answered input `r0`, then enough withdrawn ones for it to be archived; return when it is."""
    await (await conversation.submit("x", request_id="r0")).wait()
    handle = on.client.get_workflow_handle(conversation.id)
    inputs = [SubmitInput(content=f"withdrawn {n}", request_id=f"w{n}") for n in range(RECENT + 2)]
    await asyncio.gather(*(handle.signal(SUBMIT, input) for input in inputs))
    await handle.signal(ABORT)

    async def look_up() -> SubmissionLookup:
        return await handle.query(SUBMISSION, "r0", result_type=SubmissionLookup)

    await eventually(look_up, lambda found: found.submission is None and bool(found.archive))
