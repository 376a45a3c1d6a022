"""Payloads of the hooks of a call: a pass before its intent, and what they make of its result (spec §5).

Pure. What comes for a call that waits at its gates is judged by the pass that it may wake: `woken` says with which keys
that pass is made, and `keys_digest` whether they are the ones that the call has in the end (spec §5.7).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field, RootModel

from signals.box import Box, Delivery, KeyState
from signals.parking import Park, commit, wake
from signals.tokens import SignalKey
from tarry.core.agent import ForAgent
from tarry.core.messages import Frozen
from tarry.core.protocol import ResolvedCall, ToolOutcome, digest
from tarry.core.resolve import HookKind
from tarry.core.results import Diagnostic
from tarry.core.text import canonical_json
from tarry.core.waiting import ParkRequest, Verdict

ASK_GATES = "tarry.ask-gates"
TELL_RESULT = "tarry.tell-result"
REASK = "tarry.reask"
"""Plain signal: the registry has this fingerprint now; a call that waits before its intent is asked anew."""


class Incoming(Frozen):
    """A delivery that the call saw at that time; `late`: after the deadline of its park."""

    delivery: Delivery
    at: datetime
    late: bool = False


class Arrived(Frozen):
    """What came for a call while it was parked at its gates, in order, and its box before it took that.

    Keys and memos are left out of the box: the pass is given them anyway.
    """

    incoming: tuple[Incoming, ...]
    park: Park
    box: Box

    @classmethod
    def before(cls, incoming: tuple[Incoming, ...], park: Park, box: Box) -> Self:
        """With the box as it is."""
        return cls(incoming=incoming, park=park, box=box.model_copy(update={"keys": {}, "memos": {}}))


class PassInput(ForAgent):
    """What hooks are asked about, with all that the call holds.

    With what has `arrived` it asks for a `Judged`: for verdicts, and for a pass only if the call wakes.
    """

    task_id: str
    conversation_id: str
    caller: str
    call: ResolvedCall
    keys: dict[str, dict[str, KeyState]] = Field(default_factory=dict)
    memos: dict[str, Any] = Field(default_factory=dict)
    arrived: Arrived | None = None


class Pass(Frozen):
    """What a pass of all hooks came to. `memos` are new ones; `remarks` go with the result.

    `fingerprint` is of the registry that was asked, and `heard` says which of its hooks hear of results: those that
    were installed after the model had asked, too.
    """

    decision: Literal["run", "block", "sleep", "error", "not_here"]
    arguments: dict[str, Any] = Field(default_factory=dict)
    reason: str = ""
    code: Literal["blocked", "denied", "expired", "invalid_arguments", "invalid_park", ""] = ""
    by: str = ""
    park: ParkRequest | None = None
    memos: dict[str, Any] = Field(default_factory=dict)
    remarks: tuple[Diagnostic, ...] = ()
    fingerprint: str = ""
    heard: HookKind = ""


class Judged(Frozen):
    """A verdict for each delivery that had arrived, and the pass that was made with them; None: they wake nothing.

    `keys` is the digest of the keys with which it was made.
    """

    verdicts: tuple[Verdict, ...]
    found: Pass | None = None
    keys: str = ""


class PassEnd(RootModel[Judged | Pass]):
    """What the activity comes to. A worker that knows of nothing that arrived makes a pass as if nothing had."""


class ResultInput(Frozen):
    """A result for the hooks to hear of. `ran`: some of the call's own code may have run."""

    asked: PassInput
    outcome: ToolOutcome
    ran: bool


class Told(Frozen):
    """The result after the hooks."""

    outcome: ToolOutcome


def woken(input: PassInput, arrived: Arrived, verdicts: Sequence[Verdict]) -> PassInput | None:
    """What the pass is about to which the call wakes once it took what had arrived; None when no value wakes it.

    By the rules by which the call takes and wakes (spec §3.2, §3.6 to §3.8); changes none of its arguments.
    """
    box = arrived.box.model_copy(update={"keys": input.keys, "memos": input.memos})
    box, now = copy.deepcopy(box), arrived.park.since
    for one, verdict in zip(arrived.incoming, verdicts, strict=True):
        now = one.at
        box.take(
            one.delivery,
            verdict.invalid,
            verdict.version,
            now,
            awaited=arrived.park.keys,
            deadline_passed=one.late,
        )
    reason = wake(arrived.park, box, now)
    if reason is None or reason.reason != "signal":
        return None
    commit(arrived.park, reason, box)
    return input.model_copy(update={"keys": box.keys, "arrived": None})


def keys_digest(keys: Mapping[str, Mapping[str, KeyState]]) -> str:
    """Stands for all that a call's keys hold."""
    plain = {
        signal: {key: state.model_dump(mode="json") for key, state in by_key.items()} for signal, by_key in keys.items()
    }
    return digest(canonical_json(plain))


def arguments_digest(tool: str, arguments: dict[str, Any]) -> str:
    """What an approval binds to: the tool and its arguments in canonical form (spec §5.2)."""
    return digest(canonical_json([tool, arguments]))


def deadline_memo(keys: Sequence[SignalKey]) -> str:
    """The memo that keeps the deadline of a wait for these keys, once it is fixed (spec §3.9)."""
    return f"tarry.until/{digest(canonical_json([[key.signal, key.key] for key in keys]))}"
