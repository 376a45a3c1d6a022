"""Tool calls as OpenAI-compatible providers stream them: fragments, each make with its own omissions.

Ids, names and arguments are kept as the model wrote them, missing and repeated ones included: giving a
call its identity and reading its arguments is the caller's (spec §1.1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tarry.core.messages import ToolCallRequest
from tarry.core.text import clean_text


@dataclass
class _Draft:
    key: object
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class CallDrafts:
    """The calls of one response while their fragments arrive, in order of first appearance."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []

    def add(self, key: object, call_id: str | None, name: str | None, arguments: object) -> None:
        """Take a fragment of the call at place `key`, None when the provider gave no place.

        Without a place it belongs to the call before, unless it names a function: then it begins a call.
        A name under another id begins one too, since some providers put every call at place 0.
        """
        self._draft(key, call_id or "", name or "").arguments.append(_text(arguments))

    def complete(self, key: object, call_id: str | None, name: str | None, arguments: object) -> None:
        """Take a whole call: its arguments, when it has any, replace what the fragments said."""
        draft = self._draft(key, call_id or "", name or "")
        draft.arguments = [_text(arguments)] if arguments else draft.arguments

    def requests(self) -> tuple[ToolCallRequest, ...]:
        """The calls so far."""
        return tuple(
            ToolCallRequest(
                call_id=clean_text(draft.call_id),
                name=clean_text(draft.name),
                arguments=clean_text("".join(draft.arguments)),
            )
            for draft in self._drafts
        )

    def _draft(self, key: object, call_id: str, name: str) -> _Draft:
        draft = next((d for d in reversed(self._drafts) if key is None or d.key == key), None)
        if draft is None or (name and (key is None or (call_id and draft.call_id and call_id != draft.call_id))):
            draft = _Draft(key)
            self._drafts.append(draft)
        draft.call_id = draft.call_id or call_id
        draft.name = draft.name or name
        return draft


def _text(arguments: object) -> str:
    """Arguments as text; some providers send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
