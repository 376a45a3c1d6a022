"""What was said and passed, in spans: none of it unless a switch says so, and then as the redactor leaves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tarry.core.text import bound_text, clean_text
from tarry.redaction import Redact, Shown, show
from tarry.seeing.spans import Attributes

_MAX_BYTES = 8 * 1024
"""Of one attribute; of a longer text both ends."""


@dataclass(frozen=True)
class Content:
    """`is_shown`: TARRY_TRACE_CONTENT (spec §24.4). `redact`: the application's."""

    is_shown: bool = False
    redact: Redact | None = None

    def arguments(self, key: str, arguments: Mapping[str, Any], tool: str) -> Attributes:
        """The arguments of a call."""
        if not self.is_shown:
            return {}
        left = dict(arguments) if self.redact is None else show(self.redact, Shown("arguments", dict(arguments), tool))
        return {key: _bound(json.dumps(left, ensure_ascii=False, default=str))}

    def message(self, key: str, message: BaseModel) -> Attributes:
        """A message, whatever a model has put into it, as JSON."""
        if not self.is_shown:
            return {}
        return self.text(key, json.dumps(message.model_dump(), ensure_ascii=False, default=str))

    def text(self, key: str, text: str, tool: str = "") -> Attributes:
        """What a result says."""
        if not self.is_shown:
            return {}
        left = text if self.redact is None else show(self.redact, Shown("trace", text, tool))
        return {key: _bound(left)}


def _bound(text: str) -> str:
    return bound_text(clean_text(text), max_bytes=_MAX_BYTES, max_lines=_MAX_BYTES).text
