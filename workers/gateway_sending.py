"""From the gateway to Temporal, within the time in which a sender wants its answer.

A delivery that takes longer goes on behind its 503: the resend finds it under way, or done.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable

from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from tarry.client.errors import ServerUnavailable
from tarry.client.signals import deliver
from tarry.core.expectation import Kept, Target
from tarry.core.people import people_alone
from tarry.webhooks import Event, WebhookSource
from tarry.webhooks.registry import find, keep
from workers.gateway_replies import Reply, told
from workers.poking import Poker

ANSWER_WITHIN = 2.5
"""Seconds; platforms give up after three."""

MAX_UNDER_WAY = 500
"""Deliveries at a time; each holds a value in memory."""

_LOOKS = 3


class UnderWay:
    """The deliveries that have no answer yet, by their id: a resend joins the first."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Reply]] = {}

    async def answer(self, delivery_id: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """What `send` answers, or `unavailable` when it takes too long; then it goes on."""
        if (task := self._tasks.get(delivery_id)) is None:
            if len(self._tasks) >= MAX_UNDER_WAY:
                return Reply("unavailable", "too much is under way", delivery_id)
            task = self._tasks[delivery_id] = asyncio.create_task(_sent(delivery_id, send))
            task.add_done_callback(lambda _: self._tasks.pop(delivery_id))
        await asyncio.wait({task}, timeout=ANSWER_WITHIN)
        return task.result() if task.done() else Reply("unavailable", "Temporal is slow to answer", delivery_id)

    async def drain(self, patience: float) -> None:
        """Return when nothing is under way, or after `patience` seconds."""
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=patience)


async def _sent(delivery_id: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
    try:
        return await send()
    except (ServerUnavailable, RPCError) as error:
        logging.warning("delivery %s failed: %s", delivery_id, " ".join(str(error).split()))
        return Reply("unavailable", "Temporal does not answer", delivery_id)
    except Exception:
        # Logged here, since nobody may be waiting any more.
        logging.exception("delivery %s failed", delivery_id)
        return Reply("unavailable", "an error of the gateway", delivery_id, status=500)


class Road:
    """The way of a value to the task that it is for."""

    def __init__(self, client: Client, task_queue: str, poker: Poker, is_for_people: Callable[[str], bool]) -> None:
        self._client = client
        self._task_queue = task_queue
        self._poker = poker
        self._is_for_people = is_for_people

    async def to_task(self, target: Target, value: object, delivery_id: str) -> Reply:
        """Deliver what a machine sent: nothing that is asked of people (spec §23.6)."""
        if self._is_for_people(target.signal):
            return Reply("invalid", people_alone(target.signal), delivery_id)
        return await self.of_person(target, value, delivery_id)

    async def of_person(self, target: Target, value: object, delivery_id: str, version: int | None = None) -> Reply:
        """Deliver; the task's own word is the answer. A supervisor hears of it before, to start workers meanwhile."""
        self._poker.poke(delivery_id)
        to = (target.task_id, target.signal, target.key)
        return told(await deliver(self._client, *to, value, version=version, delivery_id=delivery_id))

    async def to_whom_expects(self, source: WebhookSource, event: Event, delivery_id: str) -> Reply:
        """Deliver to the task that expects the event, or keep it until one does."""
        for _ in range(_LOOKS):
            found = await find(self._client, source.name, event.match)
            if found is not None and found.target is not None:
                return await self.to_task(found.target, event.value, delivery_id)
            if not source.unexpected_for:
                return Reply("not_found", "nobody expects it", delivery_id)
            if found is not None and found.is_open and found.is_full:
                return Reply("unavailable", "too many webhooks wait for somebody to expect them", delivery_id)
            try:
                await keep(
                    self._client,
                    source.name,
                    event.match,
                    Kept(value=event.value, delivery_id=delivery_id),
                    task_queue=self._task_queue,
                    unexpected_for=source.unexpected_for,
                    anew=found is not None and not found.is_open,
                )
            except WorkflowAlreadyStartedError:
                continue  # somebody expected it meanwhile, and it is over already
            return Reply("kept", "nobody expects it yet", delivery_id)
        return Reply("unavailable", "who expects it changes all the time", delivery_id)


def delivery_id_of(door: str, own_id: str, body: bytes) -> str:
    """The same for a resend, which repeats the sender's own id, if it has one, and the body.

    Of both: most schemes do not sign the id, and a replayed request must not take the place of another one.
    """
    parts = (door.encode("utf-8", "replace"), own_id.encode("utf-8", "replace"), body)
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    return f"{door.partition('/')[0]}:{digest[:40]}"
