"""Links of chat messages: a page that shows what is asked and what the link would answer, and a POST that does it.

Previews and scanners open links, so opening one decides nothing. Who is signed in in that browser does not count: the
link itself says whose answer it is (spec §23.8).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from starlette.responses import Response
from starlette.routing import Route

from tarry.core.live import Question
from tarry.core.people import APPROVAL
from tarry.inbox.links import AnswerLink, read_link
from tarry.signed import BadToken, ExpiredToken
from workers.inbox.answering import Answer, Answering
from workers.inbox.receipts import NOBODY, STATUS, Told
from workers.inbox.showing import Card
from workers.inbox.visitors import Refused, Visit, Visitors

LOG = logging.getLogger("tarry.inbox")


class Links:
    """What happens to a link of one gateway. `whole` shows a question with all that would run."""

    def __init__(
        self,
        secrets: tuple[str, ...],
        visitors: Visitors,
        answering: Answering,
        whole: Callable[[Question], Awaitable[Card]],
    ) -> None:
        self._secrets = secrets
        self._visitors = visitors
        self._answering = answering
        self._whole = whole

    def routes(self) -> list[Route]:
        """Its addresses."""
        meet = self._visitors.anonymous
        return [
            Route("/inbox/link/{token}", meet(self.show), methods=["GET"]),
            Route("/inbox/link/{token}", meet(self.answer), methods=["POST"]),
        ]

    async def show(self, visit: Visit) -> Response:
        """`GET /inbox/link/<token>`: what would be answered."""
        link = self._read(visit)
        answer = _answer(link, "")
        asked = await self._answering.asked(link.task_id)
        if asked is None or not answer.fits(asked):
            ask = self._answering
            kind, text = await (ask.became(answer) if asked is None else ask.moved_on(answer, _CHANGED))
            return self._told(visit, link, Told(kind, "", text, link.task_id))
        return visit.page("link.html", link=link, says=_says(link), card=await self._whole(asked), told=None)

    async def answer(self, visit: Visit) -> Response:
        """`POST /inbox/link/<token>`: answer."""
        link = self._read(visit)
        asked = await self._answering.asked(link.task_id)
        told = await self._answering.send(_answer(link, visit.form.get("reason", "").strip()), asked)
        LOG.info("%s: answer by a link for %.200r to %.200r", told.kind, link.person or NOBODY, told.task_id)
        return self._told(visit, link, told)

    def _read(self, visit: Visit) -> AnswerLink:
        try:
            return read_link(visit.request.path_params["token"], self._secrets, datetime.now(UTC))
        except BadToken:
            raise Refused(404, "This is no link of ours, or it was changed on its way. Nothing was done.") from None
        except ExpiredToken:
            raise Refused(410, "This link has expired. Nothing was done.") from None

    def _told(self, visit: Visit, link: AnswerLink, told: Told) -> Response:
        return visit.page("link.html", STATUS[told.kind], link=link, says=_says(link), card=None, told=told)


_CHANGED = "What would run is not what this link was made for any more. Nothing was sent."


def _answer(link: AnswerLink, reason: str) -> Answer:
    value = link.value
    if _is_decision(link):
        value = {**value, "by": link.person, "reason": reason or str(value.get("reason", ""))}
    return Answer(
        task_id=link.task_id,
        signal=link.signal,
        key=link.key,
        digest=link.digest,
        person=link.person or NOBODY,
        said={"Allow": "Allowed.", "Deny": "Denied."}.get(_says(link), "Answered."),
        value=value,
        nonce=link.nonce,
    )


def _says(link: AnswerLink) -> str:
    if _is_decision(link):
        return "Allow" if link.value["allow"] else "Deny"
    return json.dumps(link.value, ensure_ascii=False, indent=2)


def _is_decision(link: AnswerLink) -> bool:
    """Whether it allows or denies; a value of another signal goes as it is, whatever it looks like."""
    return link.signal == APPROVAL and isinstance(link.value, dict) and isinstance(link.value.get("allow"), bool)
