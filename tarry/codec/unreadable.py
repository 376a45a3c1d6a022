"""Payloads that stay closed, and what is said to who wants their value.

A codec that raised at whatever comes would stop a workflow for each stray signal (spec §3.3). So what no setting can
open is passed on, closed, to who asks for its value: a signal is refused there, as one that is no JSON is.
"""

from __future__ import annotations

from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter

ENCODING = b"binary/tarry-aes256gcm"
KEY_ID = "key-id"
_CLOSED = b"binary/tarry-unreadable"
_REASON = "reason"


class UnreadablePayload(ValueError):
    """A payload's value is not to be had here. One line: why, and what would change that."""


class MissingKey(UnreadablePayload):
    """It is encrypted with a key that this process does not have."""

    def __init__(self, id: str) -> None:
        super().__init__(f"it is encrypted with key {id}, which this process does not have: add it to TARRY_CODEC_KEYS")
        self.id = id


def key_id(payload: Payload) -> str:
    """The id of the key that encrypted it, for people: whatever stands there, as text."""
    return ascii(payload.metadata[KEY_ID][:64].decode("utf-8", "replace")).strip("'")


def closed(reason: str) -> Payload:
    """What stands for a payload that stays closed."""
    return Payload(metadata={"encoding": _CLOSED, _REASON: reason.encode()})


def why_closed(payload: Payload) -> str | None:
    """The reason for which a payload stays closed; None of one that does not."""
    if payload.metadata.get("encoding") != _CLOSED:
        return None
    return payload.metadata[_REASON].decode("utf-8", "replace")


class ClosedConverter(EncodingPayloadConverter):
    """Reads no value: it says why there is none."""

    @property
    def encoding(self) -> str:
        """What the codec makes of a payload that stays closed."""
        return _CLOSED.decode()

    def to_payload(self, value: Any) -> Payload | None:
        """No value is written so."""
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raise the reason."""
        raise UnreadablePayload(why_closed(payload) or "")


class EncryptedConverter(ClosedConverter):
    """Reads no value where no keys are configured at all."""

    @property
    def encoding(self) -> str:
        """What the codec writes."""
        return ENCODING.decode()

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Name the key."""
        raise MissingKey(key_id(payload))
