"""Payloads of the hooks of a call: a pass before its intent, and what they make of its result (spec §5).

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from signals.box import KeyState
from signals.tokens import SignalKey
from tarry.core.messages import Frozen
from tarry.core.protocol import ResolvedCall, ToolOutcome, digest
from tarry.core.resolve import HookKind
from tarry.core.results import Diagnostic
from tarry.core.text import canonical_json
from tarry.core.waiting import ParkRequest

ASK_GATES = "tarry.ask-gates"
TELL_RESULT = "tarry.tell-result"
REASK = "tarry.reask"
"""Plain signal: the registry has this fingerprint now; a call that waits before its intent is asked anew."""


class PassInput(Frozen):
    """What hooks are asked about, with all that the call holds."""

    task_id: str
    conversation_id: str
    caller: str
    call: ResolvedCall
    extensions: tuple[str, ...] | None = None
    keys: dict[str, dict[str, KeyState]] = Field(default_factory=dict)
    memos: dict[str, Any] = Field(default_factory=dict)


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


class ResultInput(Frozen):
    """A result for the hooks to hear of. `ran`: some of the call's own code may have run."""

    asked: PassInput
    outcome: ToolOutcome
    ran: bool


class Told(Frozen):
    """The result after the hooks."""

    outcome: ToolOutcome


def arguments_digest(tool: str, arguments: dict[str, Any]) -> str:
    """What an approval binds to: the tool and its arguments in canonical form (spec §5.2)."""
    return digest(canonical_json([tool, arguments]))


def deadline_memo(keys: Sequence[SignalKey]) -> str:
    """The memo that keeps the deadline of a wait for these keys, once it is fixed (spec §3.9)."""
    return f"tarry.until/{digest(canonical_json([[key.signal, key.key] for key in keys]))}"
