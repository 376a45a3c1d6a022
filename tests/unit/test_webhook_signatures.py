from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from tarry.webhooks import GITHUB, HmacSha256, Signature, StandardWebhooks
from tarry.webhooks.signatures import NotSigned

Sign = Callable[..., dict[str, str]]
BODY = b'{"build": 7, "status": "passed"}'
SECRET = "whsec_" + base64.b64encode(b"the standard secret").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"the secret before it").decode()
TIMED = HmacSha256(
    "X-Signature", prefix="v0=", timestamp_header="X-Time", before_body="v0:{timestamp}:", id_header="X-Id"
)


def now() -> datetime:
    """Not a constant: the specification's library reads the clock, and a suite takes longer than it allows."""
    return datetime.now(UTC)


def standard(body: bytes = BODY, secret: str = SECRET, sent: datetime | None = None) -> dict[str, str]:
    """The headers that the specification's own library makes."""
    sent = sent or now()
    signature = Webhook(secret).sign("msg_1", sent, body.decode())
    timestamp = str(int(sent.timestamp()))
    return {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}


def timed(body: bytes = BODY, secret: str = SECRET, sent: datetime | None = None) -> dict[str, str]:
    timestamp = int((sent or now()).timestamp())
    return {"x-time": str(timestamp), "x-signature": TIMED.sign(body, secret, timestamp), "x-id": "event-1"}


def github(body: bytes = BODY, secret: str = SECRET, sent: datetime | None = None) -> dict[str, str]:
    return {"x-hub-signature-256": GITHUB.sign(body, secret), "x-github-delivery": "guid-1"}


SCHEMES = [(StandardWebhooks(), standard, "msg_1"), (TIMED, timed, "event-1"), (GITHUB, github, "guid-1")]


@pytest.mark.parametrize(("scheme", "sign", "own_id"), SCHEMES)
def test_a_signed_body_gives_the_senders_own_id(scheme: Signature, sign: Sign, own_id: str) -> None:
    assert scheme.verify(BODY, sign(), [SECRET], now()) == own_id


@pytest.mark.parametrize(("scheme", "sign", "own_id"), SCHEMES)
def test_any_of_several_secrets_will_do_while_they_are_changed(scheme: Signature, sign: Sign, own_id: str) -> None:
    assert scheme.verify(BODY, sign(secret=OLD_SECRET), [SECRET, OLD_SECRET], now()) == own_id


@pytest.mark.parametrize(("scheme", "sign", "own_id"), SCHEMES)
@pytest.mark.parametrize("body", [BODY + b" ", BODY.replace(b" ", b""), b"", b"\xff\xfe"])
def test_signature_covers_the_raw_bytes_of_the_body(scheme: Signature, sign: Sign, own_id: str, body: bytes) -> None:
    with pytest.raises(NotSigned):
        scheme.verify(body, sign(), [SECRET], now())


@pytest.mark.parametrize(("scheme", "sign", "own_id"), SCHEMES)
def test_the_signature_of_another_secret_is_refused(scheme: Signature, sign: Sign, own_id: str) -> None:
    with pytest.raises(NotSigned):
        scheme.verify(BODY, sign(secret=OLD_SECRET), [SECRET], now())


@pytest.mark.parametrize(("scheme", "sign"), [(StandardWebhooks(), standard), (TIMED, timed)])
@pytest.mark.parametrize("off", [timedelta(minutes=-10), timedelta(minutes=10)])
def test_a_valid_signature_of_ten_minutes_ago_or_ahead_is_refused(
    scheme: Signature, sign: Sign, off: timedelta
) -> None:
    with pytest.raises(NotSigned, match="too"):
        scheme.verify(BODY, sign(sent=now() + off), [SECRET], now())


@pytest.mark.parametrize(("scheme", "sign"), [(StandardWebhooks(), standard), (TIMED, timed)])
@pytest.mark.parametrize("off", [timedelta(minutes=-4), timedelta(minutes=4)])
def test_clocks_may_differ_by_some_minutes(scheme: Signature, sign: Sign, off: timedelta) -> None:
    assert scheme.verify(BODY, sign(sent=now() + off), [SECRET], now())


WITHOUT = [
    (StandardWebhooks(), standard(), "webhook-id"),
    (StandardWebhooks(), standard(), "webhook-timestamp"),
    (StandardWebhooks(), standard(), "webhook-signature"),
    (TIMED, timed(), "x-signature"),
    (TIMED, timed(), "x-time"),
    (GITHUB, github(), "x-hub-signature-256"),
]


@pytest.mark.parametrize(("scheme", "headers", "missing"), WITHOUT)
def test_a_request_without_a_signed_header_is_refused(
    scheme: Signature, headers: Mapping[str, str], missing: str
) -> None:
    with pytest.raises(NotSigned):
        scheme.verify(BODY, {name: value for name, value in headers.items() if name != missing}, [SECRET], now())


MALFORMED = [
    "",
    "v1",
    "v1,",
    "v1,é",
    ",,,",
    "v1,====",
    "sha256=",
    "v0=",
    "nan",
    "-1",
    "١٢٣",
    "1e400",
    "9" * 400,
    "\udc80",
]


@pytest.mark.parametrize("value", MALFORMED)
@pytest.mark.parametrize(("scheme", "headers", "name"), WITHOUT[1:])
def test_a_malformed_header_is_refused_and_nothing_else_is_raised(
    scheme: Signature, headers: Mapping[str, str], name: str, value: str
) -> None:
    with pytest.raises(NotSigned):
        scheme.verify(BODY, {**headers, name: value}, [SECRET], now())


def test_an_event_without_an_id_has_an_empty_one() -> None:
    plain = HmacSha256("X-Signature", encoding="base64")

    assert plain.verify(BODY, {"x-signature": plain.sign(BODY, "s")}, ["s"], now()) == ""
    assert GITHUB.verify(BODY, {"x-hub-signature-256": GITHUB.sign(BODY, "s")}, ["s"], now()) == ""


def test_digests_are_as_other_programs_make_them() -> None:
    # The example of GitHub's own documentation.
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    assert GITHUB.sign(b"Hello, World!", "It's a Secret to Everybody") == signature


def test_text_that_is_no_base64_is_no_secret_of_the_standard() -> None:
    StandardWebhooks().check_secret(SECRET)
    StandardWebhooks().check_secret(SECRET.rstrip("="))
    for bad in ("whsec_", "whsec_not base64", "pass-word!"):
        with pytest.raises(ValueError, match=r".+"):
            StandardWebhooks().check_secret(bad)
