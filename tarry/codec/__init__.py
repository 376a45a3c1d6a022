"""Payloads that only holders of a key can read: AES-256-GCM, keys by reference (spec §20)."""

from tarry.codec.keys import Key, Keyring, KeysError, load_keyring
from tarry.codec.payloads import Codec
from tarry.codec.unreadable import MissingKey, UnreadablePayload

__all__ = ["Codec", "Key", "Keyring", "KeysError", "MissingKey", "UnreadablePayload", "load_keyring"]
