"""Making links for a question that is open now (spec §23.8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client

from signals.tokens import SignalKey
from tarry.client.errors import NotAsked
from tarry.client.questions import question_at
from tarry.core.live import Question
from tarry.core.parked_note import is_hashed, label
from tarry.inbox import links  # whole: it is being imported, when an application imports the client
from tarry.settings import Settings

GOOD_FOR = timedelta(days=7)
"""Or until the question's deadline, when that is earlier."""


async def link_to_answer(
    client: Client,
    settings: Settings,
    task_id: str,
    value: Any,
    *,
    key: SignalKey | None = None,
    person: str = "",
    expires: datetime | None = None,
) -> str:
    """A link that offers `value` as the answer of what the task asks now, for these arguments; by default to its key.

    Raises:
        NotAsked: the task does not wait for that key; or none was named, and it waits for several, or for one that is
            too long for lists.
        NoSuchTask: no task has that id.
        WebhookError, ValueError: as `answer_link`.
        ServerUnavailable: no server answers.
    """
    asked = await question_at(client, task_id)
    chosen = _key(task_id, asked, key)
    assert asked is not None
    last = min(datetime.now(UTC) + GOOD_FOR, asked.until or datetime.max.replace(tzinfo=UTC))
    return links.answer_link(
        settings, task_id, chosen, value, digest=asked.digest, person=person, expires=expires or last
    )


def _key(task_id: str, asked: Question | None, key: SignalKey | None) -> SignalKey:
    labels: tuple[str, ...] = asked.keys if asked is not None else ()
    if key is not None and label(key) in labels:
        return key
    if key is not None or not labels:
        raise NotAsked(f"{task_id} waits for {', '.join(labels) or 'nothing that can be answered'}")
    only, *others = labels
    if others:
        raise NotAsked(f"{task_id} waits for {', '.join(labels)}: name one")
    signal, _, rest = only.partition("/")
    if is_hashed(rest):
        raise NotAsked(f"{task_id} waits for {only}, a key that lists do not show whole: name it")
    return SignalKey(signal, rest)
