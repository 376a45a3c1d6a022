"""Secrets are named, and shown by nothing that a process prints or hands on (spec §20.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.codec.keys import key_text, load_keyring
from tarry.settings import PREFIX, Settings, load_settings
from tarry.testing import Stage

NAMES = ("callback_secrets", "gateway_token", "codec_token", "inbox_proxy_secret")
SECRETS = {name: f"{name}-{'s' * 32}" for name in NAMES} | {"inbox_tokens": f"ana={'i' * 32}"}
KEY = key_text(b"k" * 32)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With every secret there is."""
    for name, secret in SECRETS.items():
        monkeypatch.setenv(f"{PREFIX}{name.upper()}", secret)
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setenv("TARRY_CODEC_KEYS", "a=env:SOME_KEY")
    monkeypatch.setenv("TARRY_CODEC_ACTIVE", "a")
    return load_settings()


def test_every_setting_that_holds_a_secret_is_known_here(settings: Settings) -> None:
    holding = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}

    assert holding == SECRETS.keys()


def test_settings_show_no_secret_in_any_form(settings: Settings) -> None:
    shown = [repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())]

    assert [secret for secret in [*SECRETS.values(), KEY] for text in shown if secret in text] == []


def test_what_is_pinned_in_a_run_holds_neither_secrets_nor_their_names(settings: Settings) -> None:
    pinned = settings.run_settings().model_dump_json()

    assert [word for word in (*SECRETS, *SECRETS.values(), KEY, "SOME_KEY", "codec") if word in pinned] == []


def test_a_keyring_shows_no_key(settings: Settings) -> None:
    shown = repr(load_keyring(settings, {"SOME_KEY": KEY}))

    assert "env:SOME_KEY" in shown
    assert KEY not in shown
    assert repr(b"k" * 32) not in shown


async def test_processes_of_a_stage_are_handed_the_secrets_themselves(settings: Settings, tmp_path: Path) -> None:
    stage = Stage("tests.support.waiting_app:app", folder=tmp_path)
    stage._settings = settings

    given = stage.environment()

    assert {name: given[f"{PREFIX}{name.upper()}"] for name in SECRETS} == SECRETS
