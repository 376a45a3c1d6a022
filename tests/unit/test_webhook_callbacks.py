from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.tokens import SignalKey
from tarry.core.expectation import Target
from tarry.settings import Settings
from tarry.signed import BadToken, ExpiredToken
from tarry.webhooks import WebhookError, callback_url
from tarry.webhooks.callbacks import read_token, required_secrets

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TASK = "conv-1~aa11/g1/t1.0"
DONE = SignalKey("ci.result", "done")
FIRST, SECOND = "f" * 32, "s" * 32
KEYS = ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000, "?a=b#c%2F", "\x00", "é" * 4_096]


def settings(secrets: str = FIRST, url: str | None = "https://hooks.example.org/tarry/") -> Settings:
    return Settings(callback_secrets=secrets, gateway_url=url)  # type: ignore[arg-type]


def token(key: SignalKey = DONE, secrets: str = FIRST, expires: datetime | None = None) -> str:
    url = callback_url(settings(secrets), TASK, key, expires=expires)
    return url.removeprefix("https://hooks.example.org/tarry/callbacks/")


@pytest.mark.parametrize("key", KEYS)
def test_a_url_names_the_task_and_every_character_of_the_key(key: str) -> None:
    made = token(SignalKey("ci.result", key))

    assert set(made) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert read_token(made, [FIRST], NOW) == Target(task_id=TASK, signal="ci.result", key=key)


def test_the_same_key_has_the_same_url_on_every_rerun_and_another_key_another() -> None:
    assert token() == token()
    assert token() != token(SignalKey("ci.result", "done2"))


def test_a_changed_secret_is_still_known_while_both_are_set() -> None:
    before, after = token(), token(secrets=f"{SECOND} {FIRST}")

    both = required_secrets(settings(f"{SECOND} {FIRST}"))
    assert before != after
    assert read_token(before, both, NOW) == read_token(after, both, NOW)
    with pytest.raises(BadToken):
        read_token(before, [SECOND], NOW)


def test_a_token_lasts_until_it_expires() -> None:
    made = token(expires=NOW + timedelta(minutes=1))

    assert read_token(made, [FIRST], NOW).task_id == TASK
    with pytest.raises(ExpiredToken):
        read_token(made, [FIRST], NOW + timedelta(minutes=1))


def test_the_bits_that_base64_leaves_over_do_not_count_as_the_same() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    made = token()
    for letter in letters.replace(made[-1], ""):
        with pytest.raises(BadToken):
            read_token(made[:-1] + letter, [FIRST], NOW)


@given(data=st.data())
def test_a_token_with_any_character_changed_is_none(data: st.DataObject) -> None:
    made = token()
    at = data.draw(st.integers(0, len(made) - 1))
    other = data.draw(st.characters().filter(lambda c: c != made[at]))

    with pytest.raises(BadToken):
        read_token(made[:at] + other + made[at + 1 :], [FIRST], NOW)


def forged(payload: str) -> str:
    return base64.urlsafe_b64encode(payload.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "guessed",
    [
        "",
        ".",
        "..",
        TASK,
        f"{TASK}/ci.result/done",
        forged(f'{{"task_id":"{TASK}","signal":"ci.result","key":"done"}}'),
    ],
)
def test_nobody_guesses_a_token(guessed: str) -> None:
    for attempt in (guessed, f"{guessed}.", f"{guessed}.{'A' * 43}", token() + guessed + "."):
        with pytest.raises(BadToken):
            read_token(attempt, [FIRST], NOW)


def test_without_a_secret_no_token_is_known() -> None:
    with pytest.raises(BadToken):
        read_token(token(), (), NOW)


def test_what_is_missing_or_cannot_be_is_said() -> None:
    with pytest.raises(WebhookError, match="TARRY_GATEWAY_URL"):
        callback_url(settings(url=None), TASK, DONE)
    with pytest.raises(WebhookError, match="TARRY_CALLBACK_SECRETS"):
        callback_url(Settings(gateway_url="https://x"), TASK, DONE)
    with pytest.raises(ValueError, match="a key has 1 to 8192 bytes"):
        callback_url(settings(), TASK, SignalKey("ci.result", ""))
    with pytest.raises(ValueError, match="time zone"):
        callback_url(settings(), TASK, DONE, expires=datetime(2026, 11, 30))  # noqa: DTZ001
