"""An answer of a person on its way to the task that asked, and what is told of it (spec §23.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from signals.box import Receipt
from signals.tokens import SignalKey
from tarry.client.decisions import LastSeen, last_seen
from tarry.client.errors import NoSuchTask, ServerUnavailable
from tarry.client.questions import question_at
from tarry.client.tasks import receipts_of
from tarry.core.expectation import Target
from tarry.core.live import Question
from tarry.core.parked_note import is_hashed, label
from tarry.core.people import delivery_of, person_of
from tarry.core.text import canonical_json
from workers.gateway_sending import Road
from workers.inbox import receipts
from workers.inbox.receipts import Kind, Told


@dataclass(frozen=True)
class Answer:
    """What somebody answers: to which question as they saw it, and in a word what they chose.

    `since`: of the question that was seen. A link has none: it is for whatever question has its key and digest.
    """

    task_id: str
    signal: str
    key: str
    digest: str
    person: str
    said: str
    value: Any
    version: int | None = None
    nonce: str = ""
    since: datetime | None = None

    @property
    def delivery_id(self) -> str:
        """The same when the same is sent again, and another one for another choice; or, of a link, its own."""
        text = canonical_json([self.task_id, self.signal, self.key, self.digest, self.value])
        return delivery_of(self.person, self.nonce or hashlib.sha256(text.encode()).hexdigest()[:32])

    @property
    def label(self) -> str:
        """Its key, as lists show it."""
        return label(SignalKey(self.signal, self.key))

    def fits(self, asked: Question) -> bool:
        """Whether it answers that question, for these arguments."""
        is_same = self.since is None or self.since == asked.since
        return is_same and asked.digest == self.digest and self.label in asked.keys and not is_hashed(self.key)


class Answering:
    """The way of answers of one gateway."""

    def __init__(self, client: Client, road: Road, task_queue: str) -> None:
        self._client = client
        self._road = road
        self._queue = task_queue

    async def asked(self, task_id: str) -> Question | None:
        """What a task asks at this moment; None: nothing, or there is no such task on this queue.

        Raises:
            ServerUnavailable: no server answers.
        """
        try:
            return await question_at(self._client, task_id, self._queue)
        except NoSuchTask:
            return None

    async def send(self, answer: Answer, asked: Question | None) -> Told:
        """Send it, if what is `asked` now is what was seen; and say what became of it.

        `asked` is the look by which it was judged who may answer, so that nothing can change in between.
        """
        try:
            kind, text = await self._send(answer, asked)
        except (ServerUnavailable, RPCError):
            kind, text = "unavailable", receipts.UNAVAILABLE
        return Told(kind, answer.said, text, answer.task_id, answer.delivery_id, answer.label)

    async def again(self, told: Told) -> Told:
        """What became since of an answer that the server kept."""
        try:
            asked = await self.asked(told.task_id)
            found = await last_seen(self._client, told.task_id, self._queue)
        except (NoSuchTask, ServerUnavailable, RPCError):
            return told
        if asked is not None and told.label in asked.keys and not found.is_taken_up:
            return told  # nobody has looked at it yet, and asking for its receipt would wait for a worker
        first = _decided(found, told.label, told.delivery_id)
        known = [] if first is not None else await self._receipts(told.task_id)
        if (first := first or _delivered(known or (), told.label, told.delivery_id)) is not None:
            kind, text = first
            return replace(told, kind=kind, text=text)
        for receipt in known or ():
            if receipt.delivery_id == told.delivery_id:
                return replace(told, kind=receipt.answer, text=receipts.judged(receipt))
        if found.ended is not None:
            return replace(told, kind="accepted" if known is None else "closed", text=receipts.left(found, known))
        if known is None:
            return replace(told, text=receipts.TAKEN_UP) if found.is_taken_up else told
        return replace(told, text=receipts.UNJUDGED)

    async def ended(self, task_id: str) -> str:
        """What is known of a task that asks nothing."""
        try:
            found = await last_seen(self._client, task_id, self._queue)
        except NoSuchTask:
            return receipts.FORGOTTEN
        return receipts.answered(found.decided[-1], "") if found.decided else receipts.over(found)

    async def became(self, answer: Answer) -> tuple[Kind, str]:
        """What became of a task that does not ask this any more: who was first, or that it is over."""
        try:
            found = await last_seen(self._client, answer.task_id, self._queue)
        except NoSuchTask:
            return "not_found", receipts.FORGOTTEN
        return await self._first(found, answer, "closed", receipts.over(found))

    async def moved_on(self, answer: Answer, changed: str = receipts.CHANGED) -> tuple[Kind, str]:
        """What became of it where the task asks something else: this may have been answered before."""
        try:
            found = await last_seen(self._client, answer.task_id, self._queue)
        except NoSuchTask:
            return "changed", changed
        return await self._first(found, answer, "changed", changed)

    async def _first(self, found: LastSeen, answer: Answer, kind: Kind, text: str) -> tuple[Kind, str]:
        """Which answer has its key: this one, or whose. Else what is given, and whether that is all."""
        if (known := _decided(found, answer.label, answer.delivery_id)) is not None:
            return known
        told = await self._receipts(answer.task_id)
        if told is None:
            return kind, f"{text} {receipts.UNTOLD}"
        return _delivered(told, answer.label, answer.delivery_id) or (kind, text)

    async def _send(self, answer: Answer, asked: Question | None) -> tuple[Kind, str]:
        if asked is None:
            return await self.became(answer)
        if not answer.fits(asked):
            return await self.moved_on(answer)
        target = Target(task_id=answer.task_id, signal=answer.signal, key=answer.key)
        reply = await self._road.of_person(target, answer.value, answer.delivery_id, answer.version)
        match reply.answer:
            case "delivered":
                return "delivered", receipts.delivered(None)
            case "accepted":
                is_late = asked.until is not None and asked.until <= datetime.now(UTC)
                return "accepted", receipts.LATE if is_late else receipts.ACCEPTED
            case "invalid":
                return "invalid", receipts.invalid(reply.reason)
            case "unavailable":
                return "unavailable", receipts.UNAVAILABLE
            case _:
                return await self.became(answer)

    async def _receipts(self, task_id: str) -> list[Receipt] | None:
        """What the task itself knows; None where no worker tells it at once: a page is not to wait for one."""
        try:
            return await receipts_of(self._client, task_id, patience=timedelta(0))
        except (RPCError, NoSuchTask):
            return None


def _decided(found: LastSeen, shown: str, delivery_id: str) -> tuple[Kind, str] | None:
    """Which answer has the key that lists show so: this one, or whose; None where lists tell of none."""
    for one in found.decided:
        if f"{one.signal}/{one.key}" == shown:
            if one.delivery_id == delivery_id:
                return "delivered", receipts.delivered(one.at)
            return "duplicate", receipts.answered(one, person_of(delivery_id))
    return None


def _delivered(known: Sequence[Receipt], shown: str, delivery_id: str) -> tuple[Kind, str] | None:
    """The same by what the task itself knows."""
    for receipt in known:
        if receipt.answer == "delivered" and label(SignalKey(receipt.signal, receipt.key)) == shown:
            if receipt.delivery_id == delivery_id:
                return "delivered", receipts.delivered(receipt.at)
            return "duplicate", receipts.answered_by(person_of(receipt.delivery_id), receipt.at)
    return None
