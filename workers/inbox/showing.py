"""Questions as the pages show them: what would run, who asks, how long is left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from tarry.core.gates import arguments_digest
from tarry.core.live import Question
from tarry.core.parked_note import is_hashed
from tarry.core.people import APPROVAL
from tarry.redaction import Redact, Shown, left_by

_SOON = timedelta(hours=1)


@dataclass(frozen=True)
class Argument:
    """One argument of a call; `text` is a text as it is, and of anything else its JSON."""

    name: str
    text: str


@dataclass(frozen=True)
class Card:
    """A parked task on a page.

    `arguments` are None where only the excerpt is known. `is_whole`: they are all that would run, with nothing hidden.
    `is_unsaid`: the application failed to say what may be seen of them, so nothing is, and nobody decides.
    """

    question: Question
    now: datetime
    arguments: tuple[Argument, ...] | None
    is_whole: bool
    may_answer: bool = True
    is_unsaid: bool = False

    @property
    def is_decidable(self) -> bool:
        """Whether it can be allowed or denied from here: all that would run is shown, as far as it may be."""
        key = self.approval_key
        return (
            self.may_answer and bool(key) and not is_hashed(key) and len(self.keys) == 1 and self.arguments is not None
        )

    @property
    def asks(self) -> bool:
        """Whether it asks a person anything."""
        return bool(self.question.question)

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Signal and key of each wait."""
        pairs = (label.partition("/") for label in self.question.keys)
        return tuple((signal, key) for signal, _, key in pairs)

    @property
    def approval_key(self) -> str:
        """The key of its approval; empty when it asks for none."""
        return next((key for signal, key in self.keys if signal == APPROVAL), "")

    @property
    def conversation(self) -> str:
        """The root conversation."""
        return self.question.path[0] if self.question.path else self.question.task_id

    @property
    def steps(self) -> tuple[str, ...]:
        """Who asks, in short: the root conversation, the subagent, the tool."""
        return tuple(step for step in (self.conversation, self.question.agent, self.question.tool) if step)

    @property
    def address(self) -> str:
        """Of its own page."""
        return f"/inbox/question?{urlencode({'task': self.question.task_id})}"

    @property
    def version(self) -> str:
        """`question_version` of it."""
        return question_version(self.question)

    @property
    def is_soon(self) -> bool:
        """Whether little time is left."""
        return self.question.until is not None and self.question.until - self.now < _SOON

    @property
    def left(self) -> str:
        """How long is left, in words."""
        if self.question.until is None:
            return "no deadline"
        ahead = self.question.until - self.now
        return f"{in_words(ahead)} left" if ahead > timedelta(0) else "the deadline has passed"

    @property
    def waited(self) -> str:
        """How long it has waited, in words."""
        return f"{in_words(self.now - self.question.since)} ago"


def question_version(question: Question) -> str:
    """Another one for each other question of a task."""
    return f"{question.digest}.{question.since.isoformat()}"


def card(question: Question, now: datetime, redact: Redact | None, exact: dict[str, Any] | None = None) -> Card:
    """A question with its arguments; `exact`: all of them, where they are known, as the application lets them out."""
    found = exact if exact is not None else excerpt_of(question)
    if found is None:
        return Card(question, now, None, is_whole=False)
    shown = found if redact is None else left_by(redact, Shown("arguments", found, question.tool))
    if shown is None:
        return Card(question, now, None, is_whole=False, is_unsaid=True)
    return Card(question, now, listed(shown), is_whole=shown == found)


def excerpt_of(question: Question) -> dict[str, Any] | None:
    """The arguments, where the excerpt is all of them."""
    try:
        found = json.loads(question.arguments)
    except ValueError:
        return None
    whole = isinstance(found, dict) and arguments_digest(question.tool, found) == question.digest
    return found if whole else None


def listed(arguments: dict[str, Any]) -> tuple[Argument, ...]:
    """Arguments one by one."""
    return tuple(Argument(name, value if isinstance(value, str) else _json(value)) for name, value in arguments.items())


def in_words(span: timedelta) -> str:
    """A span of time for a person: its two largest units."""
    seconds = max(0, int(span.total_seconds()))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        if seconds >= size or (name == "s" and not parts):
            parts.append(f"{seconds // size} {name}")
            seconds %= size
    return " ".join(parts[:2])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
