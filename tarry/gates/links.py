"""Links that allow or deny what `approvals` asks, for chat messages and mails (spec §23.8)."""

from __future__ import annotations

from tarry.gates.approvals import DECISION, Question
from tarry.inbox.links import answer_link
from tarry.settings import Settings, load_settings


def decision_links(question: Question, *, person: str = "", settings: Settings | None = None) -> tuple[str, str]:
    """A link that allows and one that denies what `approvals` asks, good until its deadline: for its `notify`.

    Raises:
        WebhookError, ValueError: as `answer_link`.
    """
    chosen = settings or load_settings()
    key, digest = DECISION.key(question.key), question.key.rpartition(":")[2]
    allow, deny = (
        answer_link(
            chosen,
            question.task_id,
            key,
            {"allow": allow, "by": person, "reason": ""},
            digest=digest,
            person=person,
            expires=question.until,
        )
        for allow in (True, False)
    )
    return allow, deny
