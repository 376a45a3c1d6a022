"""Payloads under AES-256-GCM: whole, with their metadata, each with a nonce of its own (spec §20.1).

What a store keeps is encrypted too, since it is given payloads as the codec leaves them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from tarry.codec.keys import Keyring
from tarry.codec.unreadable import ENCODING, KEY_ID, MissingKey, closed, key_id

_NONCE = 12
OVERHEAD = 100
"""Bytes, at most, that a payload grows by, with a key id of 20 characters: nonce, tag and metadata."""

_REFUSED = "it is not encrypted: send it with a key, or set TARRY_CODEC_CLEAR=true while old ones are to be read"
_FORGED = "it does not fit key {}: it was changed, or written with another key of that id"


class Codec(PayloadCodec):
    """Encrypts with the active key, and decrypts with any of the ring.

    Raises only at what the right key would open; what can never be opened, and what may not be read in the clear,
    is passed on closed.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._ciphers = {id: AESGCM(key.secret) for id, key in keyring.keys.items()}

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each, or none while no key is active."""
        key = self._keyring.active
        return list(payloads) if key is None else [self._encrypted(payload, key.id) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each.

        Raises:
            MissingKey: one is encrypted with a key that is not in the ring. Nothing is lost: it is read once it is.
        """
        return [self._opened(payload) for payload in payloads]

    def _encrypted(self, payload: Payload, id: str) -> Payload:
        nonce = os.urandom(_NONCE)
        data = self._ciphers[id].encrypt(nonce, payload.SerializeToString(), _bound(id.encode()))
        return Payload(metadata={"encoding": ENCODING, KEY_ID: id.encode()}, data=nonce + data)

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload if self._keyring.reads_clear else closed(_REFUSED)
        id = payload.metadata[KEY_ID]
        cipher = self._ciphers.get(id.decode("ascii", "replace"))
        if cipher is None:
            raise MissingKey(key_id(payload))
        try:
            return Payload.FromString(cipher.decrypt(payload.data[:_NONCE], payload.data[_NONCE:], _bound(id)))
        # Too short to have a nonce, or not ours.
        except (InvalidTag, ValueError):
            return closed(_FORGED.format(key_id(payload)))


def _bound(id: bytes) -> bytes:
    """What stands beside the data in the clear is authenticated with it."""
    return ENCODING + b" " + id
