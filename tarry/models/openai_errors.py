"""What went wrong, in the three kinds the generation knows: retryable, permanent, overflow (spec §6.3).

Nothing of the provider's library leaves this file: an error here is a `ModelError` with a text for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import openai

from tarry.core.retry_after import retry_after_seconds
from tarry.core.text import bound_text
from tarry.models import ModelError, ModelErrorKind

MAX_TEXT = 500

CAUGHT = (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)
"""What a request or its stream can raise. A ValueError is a chunk that is no JSON or no UTF-8."""

_RETRYABLE = {408, 409, 429}
_OVERFLOW = re.compile(
    r"context[ _-]length|context[ _-]size|context window|maximum context|maximum prompt length"
    r"|(prompt|input) is too long|input token count .*exceeds|reduce the length of the messages"
    r"|exceeded model token limit|request[ _]too[ _]large",
    re.IGNORECASE,
)
_SPENT = re.compile(r"quota|billing", re.IGNORECASE)
_HOPELESS = re.compile(r"invalid|policy|authentication|permission|not_found", re.IGNORECASE)


@dataclass(frozen=True)
class Complaint:
    """An error as a provider words it; `status` is None inside a stream."""

    text: str
    code: str
    status: int | None = None

    @classmethod
    def read(cls, body: object, status: int | None = None) -> Complaint:
        """Read an error body, whichever shape it has: OpenAI's object, a list of one, a text, a page."""
        if isinstance(body, list) and body:
            return cls.read(body[0], status)
        fields: Mapping[str, Any] = body if isinstance(body, Mapping) else {"message": body}
        if isinstance(fields.get("error"), Mapping):
            fields = fields["error"]
        words = fields.get("message") or fields.get("detail") or ""
        code = " ".join(str(fields[name]) for name in ("code", "type") if fields.get(name) is not None)
        number = re.match(r"[45][0-9][0-9]\b", code)
        return cls(_sentence(words), code, status or (int(number[0]) if number else None))

    def kind(self) -> ModelErrorKind:
        """Whether the same request may succeed later, never, or when it is shorter."""
        if self.status not in (401, 403, 404) and (self.status == 413 or _OVERFLOW.search(f"{self.code} {self.text}")):
            return "overflow"
        if _SPENT.search(self.code):
            return "permanent"
        if self.status is None:
            return "permanent" if _HOPELESS.search(self.code) else "retryable"
        return "retryable" if self.status in _RETRYABLE or self.status >= 500 else "permanent"


def _sentence(words: object) -> str:
    text = words if isinstance(words, str) else json.dumps(words, default=str)
    return "" if text.lstrip().startswith("<") else text  # a proxy's page says nothing that the status does not


def model_error(error: Exception, host: str, idle_timeout: float, now: datetime) -> ModelError:
    """The `ModelError` for what a request to `host` raised: one of `CAUGHT`."""
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else error
    if isinstance(error, openai.APIStatusError):
        return _refusal(error, now)
    if isinstance(cause, httpx2.ConnectTimeout | httpx2.ConnectError):
        return ModelError(f"cannot connect to {host}: {str(cause) or 'timed out'}", "retryable")
    if isinstance(cause, httpx2.TimeoutException):
        return ModelError(f"{host} sent nothing for {idle_timeout:g} s", "retryable")
    if isinstance(cause, httpx2.LocalProtocolError | UnicodeEncodeError):
        # Its text would quote the header, and the header is the key.
        return ModelError("a request header has an illegal character: check OPENAI_API_KEY", "permanent")
    if isinstance(cause, openai.APIError):
        complaint = Complaint.read(cause.body)
        return ModelError(f"the response failed: {complaint.text or cause.message}", complaint.kind())
    if isinstance(cause, ValueError):
        return ModelError(f"a malformed chunk in the stream: {cause}", "retryable")
    return ModelError(f"lost the connection to {host}: {str(cause) or type(cause).__name__}", "retryable")


def _refusal(error: openai.APIStatusError, now: datetime) -> ModelError:
    complaint = Complaint.read(error.body, error.status_code)
    text = f"HTTP {error.status_code}: {complaint.text or error.response.reason_phrase or 'no reason given'}"
    return ModelError(text, complaint.kind(), retry_after=retry_after_seconds(error.response.headers, now))


def for_people(text: str, secret: str) -> str:
    """`text` on one line, at most 500 characters, without `secret`."""
    line = " ".join(bound_text(text).text.split())
    if secret:
        line = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", line)
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
