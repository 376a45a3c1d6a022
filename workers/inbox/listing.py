"""The part of what waits that a page shows: filtered, and so many at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from tarry.core.live import Question
from workers.inbox.showing import Card

PAGE_SIZE = 50


@dataclass(frozen=True)
class Listing:
    """`cards` of page `number`, of `found` that fit. `asked` and `parked`: how many ask a person, and how many wait."""

    cards: Sequence[Card]
    number: int
    found: int
    asked: int
    parked: int
    text: str
    whom: str
    conversation: str
    shows_all: bool
    people: Sequence[str]

    @classmethod
    def of(cls, parked: Sequence[Question], query: Mapping[str, str], card: Callable[[Question], Card]) -> Listing:
        """What an address asks for; a card is made of what the page shows alone."""
        text, whom, conversation = (query.get(name, "").strip() for name in ("q", "for", "conversation"))
        shows_all = query.get("show") == "all"
        fitting = [
            one
            for one in parked
            if (shows_all or one.question)
            and (not text or _fits(one, text))
            and (not whom or one.for_whom == whom)
            and (not conversation or conversation in one.path)
        ]
        asked_for = query.get("page", "1")
        number = int(asked_for) if asked_for.isascii() and asked_for.isdecimal() and len(asked_for) < 6 else 1
        number = min(max(number, 1), _pages(len(fitting)))
        return cls(
            cards=[card(one) for one in fitting[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]],
            number=number,
            found=len(fitting),
            asked=sum(1 for one in parked if one.question),
            parked=len(parked),
            text=text,
            whom=whom,
            conversation=conversation,
            shows_all=shows_all,
            people=sorted({one.for_whom for one in parked if one.for_whom}),
        )

    @property
    def pages(self) -> int:
        """How many pages there are, one at least."""
        return _pages(self.found)

    @property
    def is_filtered(self) -> bool:
        """Whether something is left out by a filter."""
        return bool(self.text or self.whom or self.conversation)

    def address(self, **change: str) -> str:
        """Of the same list with another page, or other filters; an empty one is none."""
        shows = "all" if self.shows_all else ""
        asked = {"q": self.text, "for": self.whom, "conversation": self.conversation, "show": shows} | change
        given = {name: value for name, value in asked.items() if value}
        return f"/inbox?{urlencode(given)}" if given else "/inbox"


def _pages(found: int) -> int:
    return max(1, -(-found // PAGE_SIZE))


def _fits(one: Question, text: str) -> bool:
    """Whether a text occurs in anything that is shown of it."""
    shown = "\n".join([one.question, one.tool, one.for_whom, one.arguments, one.agent, *one.path, *one.keys])
    return text.casefold() in shown.casefold()
