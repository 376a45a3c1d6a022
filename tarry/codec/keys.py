"""The keys of a deployment: settings name them and where each is kept, and never hold one (spec §20.2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tarry.settings import NO_KEY, Settings, SettingsError

KEY_BYTES = 32


class KeysError(SettingsError):
    """A key cannot be used as it is configured. One line: which one, and what to do; never what it is."""


@dataclass(frozen=True)
class Key:
    """A key under its id, which stands in the clear beside whatever it encrypts."""

    id: str
    secret: bytes = field(repr=False)
    place: str = ""

    @property
    def fingerprint(self) -> str:
        """Equal for equal keys: two processes compare what they hold under one id without showing it."""
        return hashlib.sha256(b"tarry key " + self.secret).hexdigest()[:12]


@dataclass(frozen=True)
class Keyring:
    """What a process reads and writes with.

    Attributes:
        keys: by id; each is good for reading.
        active: the one that encrypts; None writes in the clear, while keys are being handed out.
        reads_clear: whether payloads that are not encrypted are read.
    """

    keys: Mapping[str, Key]
    active: Key | None
    reads_clear: bool = False


def load_keyring(settings: Settings, environment: Mapping[str, str] = os.environ) -> Keyring | None:
    """The keys that the settings name, read now; None where they name none and nothing is encrypted.

    Raises:
        KeysError: a key is not where the settings say, is no key, or the active one is not among them.
    """
    if settings.codec_keys is None:
        if settings.codec_active not in (None, NO_KEY):
            raise KeysError(f"TARRY_CODEC_ACTIVE={settings.codec_active} names no key: set TARRY_CODEC_KEYS too")
        return None
    keys: dict[str, Key] = {}
    for entry in settings.codec_keys.split():
        id, place = entry.split("=", 1)
        if id in keys:
            raise KeysError(f"TARRY_CODEC_KEYS names two keys {id}: give each an id of its own")
        keys[id] = Key(id, _read(id, place, environment), place)
    return Keyring(keys, _active(settings, keys), settings.codec_clear or settings.codec_active == NO_KEY)


def key_text(secret: bytes) -> str:
    """A key as its file or variable holds it."""
    return base64.urlsafe_b64encode(secret).decode()


def _active(settings: Settings, keys: Mapping[str, Key]) -> Key | None:
    known = ", ".join(keys)
    if settings.codec_active is None:
        raise KeysError(
            f"TARRY_CODEC_ACTIVE is missing: name the key that encrypts ({known}), or give {NO_KEY} "
            "while keys are handed out"
        )
    if settings.codec_active == NO_KEY:
        return None
    if settings.codec_active not in keys:
        raise KeysError(f"TARRY_CODEC_ACTIVE={settings.codec_active} is not among TARRY_CODEC_KEYS ({known})")
    return keys[settings.codec_active]


def _read(id: str, place: str, environment: Mapping[str, str]) -> bytes:
    kind, _, name = place.partition(":")
    if kind == "env":
        text = environment.get(name, "")
        if not text.strip():
            raise KeysError(f"key {id} is missing: the variable {name} is not set")
    else:
        try:
            text = Path(name).expanduser().read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise KeysError(f"key {id} is missing: {name} cannot be read ({reason})") from None
    return _decoded(id, place, text.strip())


def _decoded(id: str, place: str, text: str) -> bytes:
    try:
        secret = base64.b64decode(text.replace("+", "-").replace("/", "_"), b"-_", validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise KeysError(f"key {id} at {place} is no key: {KEY_BYTES} bytes as base64, as `tarry keys new` makes them")
    return secret
