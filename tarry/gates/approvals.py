"""Approvals: a person allows or denies a call, for these arguments and no others (spec §5.2).

The key of the question is the digest of tool and arguments, so an answer fits one call and what it would run with. The
deadline is fixed when it is asked first; an answer after it counts as none.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel

from signals.parking import Ask, Sleep
from signals.tokens import Signal
from tarry.api import Expired, Received
from tarry.app import Extension
from tarry.core.people import APPROVAL
from tarry.core.protocol import digest
from tarry.core.text import bound_text, canonical_json
from tarry.hooks import Block, Gate, HookApi, HookCall, Hooks

NAME = "approvals"
DAY = timedelta(days=1)
MAX_SHOWN = 2 * 1024


class Decision(BaseModel):
    """An answer; `by` and `reason` reach the model and the record as they are."""

    allow: bool
    by: str = ""
    reason: str = ""


DECISION = Signal(APPROVAL, 1, Decision, for_people=True)
"""What is delivered to the call; the key is the one of the question."""


@dataclass(frozen=True)
class Question:
    """What is asked. `id` stands for the call and the question: who gets it twice need only tell it once."""

    id: str
    task_id: str
    key: str
    ask: Ask
    until: datetime


Predicate = Callable[[HookCall], bool]
Notify = Callable[[HookCall, Question], Awaitable[None] | None]


def approvals(
    risky: Predicate,
    *,
    deadline: timedelta = DAY,
    ask: Callable[[HookCall], Ask | str] | None = None,
    standing: Callable[[HookCall], str] | None = None,
    notify: Notify | None = None,
    unattended: bool = False,
    name: str = NAME,
) -> Extension:
    """A gate at which risky calls wait for a `DECISION`.

    A denial, an expiry and a block by a policy that fails are different words to the model. Who allowed or denied a
    call, and why, stands in its result. Each new call is a new question, also with equal arguments.

    Args:
        risky: which calls need a person. One that raises blocks the call.
        deadline: how long an answer is waited for, from the first time it is asked.
        ask: the question; by default the tool and its arguments.
        standing: the name of a rule that allows a call without asking, or an empty text.
        notify: told of each question, does IO, and may be told again after a crash, with the same `Question.id`.
        unattended: nobody is there to ask, so a risky call is denied.
        name: of the extension; another one for each further gate of this kind. Its keys then are `<name>:<digest>`.
    """
    gate = _Approvals(risky, deadline, ask or _default, standing, notify, unattended, name)
    return Extension(name, signals=[DECISION], hooks=Hooks(before_tool=gate, io=notify is not None))


@dataclass(frozen=True)
class _Approvals:
    risky: Predicate
    deadline: timedelta
    ask: Callable[[HookCall], Ask | str]
    standing: Callable[[HookCall], str] | None
    notify: Notify | None
    unattended: bool
    name: str

    async def __call__(self, call: HookCall, api: HookApi) -> Gate:
        if not self.risky(call):
            return None
        if self.standing is not None and (rule := self.standing(call)):
            api.diagnostic(f"Allowed by the standing rule {rule}.", code="approved")
            return None
        if self.unattended:
            return Block("Nobody is there to approve it.", code="denied", by="policy")
        return await self._answered(call, api)

    async def _answered(self, call: HookCall, api: HookApi) -> Gate:
        key = call.digest if self.name == NAME else f"{self.name}:{call.digest}"
        last = (api.now() + self.deadline).isoformat()
        fixed = await api.memo(f"{self.name}.until/{key}", last)
        until = datetime.fromisoformat(fixed)
        match await api.read_signal(DECISION, key):
            case Received(value=decision, at=at) if at < until:
                return _decided(decision, api)
            case Received() | Expired():
                return Block(f"It was asked until {until:%Y-%m-%d %H:%M} UTC.", code="expired")
        question = self._question(call, key, until)
        if fixed == last and self.notify is not None:  # no pass before this one has asked
            told = self.notify(call, question)
            if inspect.isawaitable(told):
                await told
        return Sleep(signals=[DECISION.key(key)], until=until, ask=question.ask)

    def _question(self, call: HookCall, key: str, until: datetime) -> Question:
        text = self.ask(call)
        return Question(
            id=digest(canonical_json([call.task_id, key])),
            task_id=call.task_id,
            key=key,
            ask=Ask(text=text) if isinstance(text, str) else text,
            until=until,
        )


def _decided(decision: Decision, api: HookApi) -> Gate:
    if not decision.allow:
        return Block(decision.reason, code="denied", by=decision.by)
    who = f" by {decision.by}" if decision.by else ""
    why = f": {decision.reason}" if decision.reason else "."
    api.diagnostic(f"Approved{who}{why}", code="approved")
    return None


def _default(call: HookCall) -> str:
    return bound_text(f"Allow {call.tool} {canonical_json(call.arguments)}?", max_bytes=MAX_SHOWN).text
