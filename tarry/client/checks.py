"""What a client looks at before it sends."""

from __future__ import annotations

import json
import secrets
import time
import uuid

from pydantic import BaseModel, ValidationError

from tarry.client.errors import InputTooLarge
from tarry.core.agent import AgentChange, AgentFields
from tarry.core.inbox import TooLarge, content_size
from tarry.core.protocol import RunSettings, WhenBusy
from tarry.core.text import clean_text
from tarry.outputs import schema_of

MAX_JSON = 1280 * 1024
"""Bytes of an input as JSON, where a quote takes two and a control character six; Temporal takes 2 MiB at once."""


def checked_change(change: AgentFields) -> AgentChange:
    """New choices.

    Raises:
        ValueError: one is none.
    """
    try:
        return AgentChange.model_validate(change)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def with_output(settings: RunSettings, output: type[BaseModel] | None, when_busy: WhenBusy) -> RunSettings:
    """The settings of an input whose answer must be that.

    Raises:
        ValueError: it has no schema that can be sent, or the input would join a run whose answer has another form.
    """
    if output is None:
        return settings
    if when_busy == "steer":
        raise ValueError("an input with an output needs a run of its own: submit it as a follow_up")
    return settings.model_copy(update={"output": schema_of(output)})


def checked_content(content: str) -> str:
    """An input as it is sent.

    Raises:
        InputTooLarge: it is not sent.
    """
    content = clean_text(content)
    try:
        content_size(content)
    except TooLarge as error:
        raise InputTooLarge(str(error)) from None
    size = len(json.dumps(content, ensure_ascii=False).encode())
    if size > MAX_JSON:
        raise InputTooLarge(f"the input has {size} bytes as JSON, {MAX_JSON} are allowed; leave out control characters")
    return content


def checked_id(conversation_id: str | None) -> str:
    """The id of a conversation; a new one for None.

    Raises:
        ValueError: the id is empty, longer than 200 bytes, or holds `/`, `~` or a control character.
    """
    if conversation_id is None:
        return f"conv-{_uuid7()}"
    if not 0 < len(conversation_id.encode()) <= 200:
        raise ValueError("a conversation id has 1 to 200 bytes")
    if any(c in "/~" or not c.isprintable() for c in conversation_id):
        raise ValueError(f"conversation id {conversation_id!r} must not hold '/', '~' or control characters")
    return conversation_id


def _uuid7() -> uuid.UUID:
    """A time-ordered id (RFC 9562), so that lists of conversations sort by age."""
    bits = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=bits & ~(0x3 << 62) | 0x2 << 62)
