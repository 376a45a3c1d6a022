"""The outbox of a conversation: what leaves it, one after the other, each until it is acknowledged (spec §1.6).

A signal that is sent in the very task that ends or turns over a workflow never arrives. So it leaves by an
activity, and the conversation does not turn over before the outbox is empty.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError

from tarry.core.commits import SEND, Commits, SendInput
from workflows import options


async def serve(commits: Commits) -> None:
    """Send what is in the outbox, in order, for as long as the run lasts."""
    while True:
        await workflow.wait_condition(lambda: bool(commits.outbox))
        try:
            await workflow.execute_activity(SEND, SendInput(item=commits.outbox[0]), **options.SEND)
        except ActivityError as error:  # somebody ended it by hand
            workflow.logger.warning("An item of the outbox was given up: %s", error.cause or error)
        commits.sent()
