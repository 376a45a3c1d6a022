"""An answer of a person on its way to the task that asked, and what is told of it (spec §23.4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from tarry.client.errors import NoSuchTask, ServerUnavailable
from tarry.client.questions import question_at
from tarry.client.tasks import receipts_of
from tarry.core.expectation import Target
from tarry.core.live import Question
from tarry.core.people import delivery_of, person_of
from tarry.core.text import canonical_json
from workers.gateway_sending import Road
from workers.inbox.receipts import Told, clock

CHANGED = "The question has changed since this page showed it; look again. Nothing was sent."


@dataclass(frozen=True)
class Answer:
    """What somebody answers: to which question as they saw it, and in words what they chose."""

    task_id: str
    signal: str
    key: str
    digest: str
    person: str
    said: str
    value: Any

    @property
    def delivery_id(self) -> str:
        """The same when the same is sent again, and another one for another choice."""
        text = canonical_json([self.task_id, self.signal, self.key, self.digest, self.value])
        return delivery_of(self.person, hashlib.sha256(text.encode()).hexdigest()[:32])


class Answering:
    """The way of answers of one gateway."""

    def __init__(self, client: Client, road: Road) -> None:
        self._client = client
        self._road = road

    async def asked(self, task_id: str) -> Question | None:
        """What a task asks at this moment; None: nothing, or there is no such task."""
        try:
            return await question_at(self._client, task_id)
        except NoSuchTask:
            return None

    async def send(self, answer: Answer) -> Told:
        """Send it, if the question is still the one that was seen; and say what became of it."""
        try:
            return await self._send(answer)
        except (ServerUnavailable, RPCError):
            return self._told(answer, "unavailable", "Temporal does not answer. Send it again; it is not sent twice.")

    async def _send(self, answer: Answer) -> Told:
        asked = await self.asked(answer.task_id)
        if asked is None:
            return await self._too_late(answer)
        if asked.digest != answer.digest or f"{answer.signal}/{answer.key}" not in asked.keys:
            return self._told(answer, "changed", CHANGED)
        target = Target(task_id=answer.task_id, signal=answer.signal, key=answer.key)
        reply = await self._road.to_task(target, answer.value, answer.delivery_id)
        match reply.answer:
            case "delivered":
                return self._told(answer, "delivered", "Delivered.")
            case "accepted":
                text = "Accepted: no worker is up, the server keeps it. Its receipt follows when one is."
                return self._told(answer, "accepted", text)
            case "invalid":
                return self._told(answer, "invalid", f"Not taken: {reply.reason}")
            case "unavailable":
                return self._told(answer, "unavailable", "Temporal does not answer. Send it again.")
            case _:
                return await self._too_late(answer)

    async def _too_late(self, answer: Answer) -> Told:
        """The task does not ask this any more: who was first, or that it is over."""
        try:
            receipts = await receipts_of(self._client, answer.task_id)
        except NoSuchTask:
            return self._told(answer, "not_found", "There is no such task any more.")
        except RPCError:
            receipts = []
        for one in receipts:
            if (one.signal, one.key, one.answer) != (answer.signal, answer.key, "delivered"):
                continue
            if one.delivery_id == answer.delivery_id:
                return self._told(answer, "delivered", f"Delivered at {clock(one.at)}.")
            who = person_of(one.delivery_id) or "somebody else"
            who = "you" if who == answer.person else who
            return self._told(answer, "duplicate", f"Already answered by {who} at {clock(one.at)}. Nothing changed.")
        return self._told(answer, "closed", "It is over. Nothing was sent.")

    def _told(self, answer: Answer, kind: Any, text: str) -> Told:
        return Told(kind, answer.said, text, answer.task_id, answer.delivery_id)
