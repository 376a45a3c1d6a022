from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from tarry.core.protocol import RunSettings
from tarry.settings import Settings, SettingsError, load_settings


@pytest.fixture(autouse=True)
def no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("TARRY_")]:
        monkeypatch.delenv(name)


def test_without_variables_every_setting_has_its_default() -> None:
    assert load_settings().model_dump() == {
        "task_queue": "tarry",
        "store": ".tarry/store",
        "config_dir": "~/.config/tarry",
        "app": None,
        "deployment": None,
        "build": None,
        "serves": "default",
        "heartbeat_timeout": 8.0,
        "progress_interval": 0.2,
        "restart_limit": 5,
        "shutdown_grace": 30.0,
        "max_cached_workflows": 1_000,
        "max_concurrent_activities": 200,
        "max_turns": 100,
        "model_idle_timeout": 60.0,
        "provider_retries": 3,
        "compaction": True,
        "reserve_tokens": 16_384,
        "keep_recent_tokens": 20_000,
        "background_tokens": 32_768,
        "entry_cache_bytes": 64 * 1024 * 1024,
        "turnover_events": 1_000,
        "steering_mode": "one-at-a-time",
        "follow_up_mode": "one-at-a-time",
        "gateway_host": "127.0.0.1",
        "gateway_port": 7280,
        "gateway_url": None,
        "callback_secrets": None,
        "gateway_token": None,
        "scale_min": 0,
        "scale_max": 1,
        "scale_quiet": 60.0,
        "scale_ahead": 10.0,
        "scale_socket": ".tarry/scale.sock",
        "log_format": "text",
        "log_level": None,
        "metrics": None,
        "trace_content": False,
        "codec_keys": None,
        "codec_active": None,
        "codec_clear": False,
        "codec_host": "127.0.0.1",
        "codec_port": 7281,
        "codec_token": None,
        "codec_origins": "http://localhost:8233 http://127.0.0.1:8233",
        "inbox_tokens": None,
        "inbox_user_header": None,
        "inbox_proxy_secret": None,
    }


def test_variables_are_read_and_empty_ones_count_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_APP", "tarry.demo.triage:scripted")
    monkeypatch.setenv("TARRY_HEARTBEAT_TIMEOUT", "2.5")
    monkeypatch.setenv("TARRY_STORE", "s3://bucket/agents")
    monkeypatch.setenv("TARRY_TASK_QUEUE", "")

    settings = load_settings()

    assert (settings.app, settings.heartbeat_timeout) == ("tarry.demo.triage:scripted", 2.5)
    assert (settings.store, settings.task_queue) == ("s3://bucket/agents", "tarry")


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("TARRY_HEARTBEAT_TIMEOUT", "soon", "a number of seconds from 1 to 600"),
        ("TARRY_HEARTBEAT_TIMEOUT", "0.5", "a number of seconds from 1 to 600"),
        ("TARRY_SHUTDOWN_GRACE", "nan", "a number of seconds from 0 to 3600"),
        ("TARRY_MODEL_IDLE_TIMEOUT", "inf", "a number of seconds from 1 to 3600"),
        ("TARRY_RESTART_LIMIT", "0", "a whole number from 1 to 1000"),
        ("TARRY_PROVIDER_RETRIES", "2.5", "a whole number from 0 to 20"),
        ("TARRY_TURNOVER_EVENTS", "50000", "a whole number from 10 to 10000"),
        ("TARRY_APP", "examples/triage.py", "module:attribute, such as tarry.demo.triage:scripted"),
        ("TARRY_DEPLOYMENT", "a.b", "a name of 1 to 100 letters, digits, - and _ that begins with a letter or digit"),
        ("TARRY_BUILD", "a:b", "a name of 1 to 100 letters, digits, -, _, . and + that begins with a letter or digit"),
        ("TARRY_TASK_QUEUE", "two words", "a name of 1 to 200 characters without blanks"),
        ("TARRY_STORE", "gs://bucket", "a directory, file:///directory or s3://bucket/prefix"),
        ("TARRY_STORE", "s3://", "a directory, file:///directory or s3://bucket/prefix"),
        ("TARRY_STORE", "file://elsewhere/store", "a directory, file:///directory or s3://bucket/prefix"),
        ("TARRY_GATEWAY_PORT", "65536", "a whole number from 0 to 65535"),
        ("TARRY_GATEWAY_URL", "example.org", "an http(s) URL without query"),
        ("TARRY_GATEWAY_URL", "https://example.org/?a=b", "an http(s) URL without query"),
        ("TARRY_CODEC_ACTIVE", "two words", "the id of one of the keys, or none"),
        ("TARRY_CODEC_ORIGINS", "*", "origins such as https://temporal.example.org, with blanks between them"),
    ],
)
def test_refused_variable_is_named_with_what_it_may_hold(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert str(refused.value) == f"{variable}={value!r} is refused: give {allowed}"


@pytest.mark.parametrize("secrets", ["short", f"{'k' * 40} {'k' * 31}", " "])
def test_a_refused_secret_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch, secrets: str) -> None:
    monkeypatch.setenv("TARRY_CALLBACK_SECRETS", secrets)

    with pytest.raises(SettingsError) as refused:
        load_settings()

    allowed = "secrets of 32 characters or more, with blanks between them"
    assert str(refused.value) == f"TARRY_CALLBACK_SECRETS is refused: give {allowed}"


@pytest.mark.parametrize("tokens", ["Ana={a} Ana={b}", "Ana={a} Ben={a}", "Ana={a} Ben=short", "={a}"])
def test_people_who_cannot_be_told_apart_are_refused(monkeypatch: pytest.MonkeyPatch, tokens: str) -> None:
    monkeypatch.setenv("TARRY_INBOX_TOKENS", tokens.format(a="a" * 32, b="b" * 32))
    with pytest.raises(SettingsError, match="TARRY_INBOX_TOKENS") as refused:
        load_settings()

    assert "a" * 32 not in str(refused.value)


@pytest.mark.parametrize("keys", ["a=c2VjcmV0", "c2VjcmV0", "a=env:K b=c2VjcmV0", "a=file:", "a=env:1"])
def test_a_key_in_the_place_of_its_name_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    monkeypatch.setenv("TARRY_CODEC_KEYS", keys)

    with pytest.raises(SettingsError) as refused:
        load_settings()

    allowed = "id=file:/path or id=env:NAME for each key, with blanks between them; never a key itself"
    assert str(refused.value) == f"TARRY_CODEC_KEYS is refused: give {allowed}"


@pytest.mark.parametrize(("given", "missing"), [("DEPLOYMENT", "BUILD"), ("BUILD", "DEPLOYMENT")])
def test_a_build_needs_a_deployment_and_a_deployment_a_build(
    monkeypatch: pytest.MonkeyPatch, given: str, missing: str
) -> None:
    monkeypatch.setenv(f"TARRY_{given}", "v1")

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert str(refused.value) == f"TARRY_{given} is set without TARRY_{missing}: set both, or neither"


def test_every_refused_variable_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_RESTART_LIMIT", "many\nmore")
    monkeypatch.setenv("TARRY_MAX_TURNS", "0")

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert "TARRY_RESTART_LIMIT" in str(refused.value)
    assert "TARRY_MAX_TURNS" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("store", [".tarry/store", "/var/tarry:blue", "~/x", "file:///var/t", "s3://b", "s3://b/a/c"])
def test_store_may_be_a_path_or_a_url(monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    monkeypatch.setenv("TARRY_STORE", store)

    assert load_settings().store == store


def test_settings_cannot_be_changed_after_they_are_read() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().max_turns = 3  # type: ignore[misc]


def test_run_settings_are_the_pinned_subset_and_share_its_defaults() -> None:
    of_a_conversation = {"agent", "output"}
    assert RunSettings.model_fields.keys() - of_a_conversation <= Settings.model_fields.keys()
    assert Settings().run_settings() == RunSettings()
    assert Settings(max_turns=3, heartbeat_timeout=2).run_settings() == RunSettings(max_turns=3, heartbeat_timeout=2)
