"""What is not signed, not recent, not for that task or not readable is refused before anything is sent."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from standardwebhooks.webhooks import Webhook

from tarry.embedded import EmbeddedServer
from tarry.webhooks import GITHUB, callback_url
from tests.support.gateways import (
    CALLBACK_SECRETS,
    Sender,
    callback_path,
    expecting,
    gateway,
    gateway_settings,
    parked,
    signed,
)
from tests.support.stage import Stage, idle_stage, stage
from tests.support.webhook_app import SECRETS, CiResult, app
from tests.support.wires import Wire

DONE = CiResult.key("done")
TASK = "conv-1~aa11/g1/t1.0"
BODY = b'{"build": "7", "state": "passed"}'


@pytest.fixture
async def on(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    async with idle_stage(server, app, tmp_path) as made:
        yield made


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def sender(on: Stage, wire: Wire) -> AsyncIterator[Sender]:
    """A sender to a gateway whose calls to Temporal are on the wire."""
    async with gateway(on, wire.client(on.client)) as made:
        yield made


UNSIGNED = {
    "no signature": {},
    "no timestamp": {"X-CI-Signature": signed(BODY)["X-CI-Signature"]},
    "another body, by a blank": signed(BODY + b" "),
    "another body, the same data": signed(BODY.replace(b" ", b"")),
    "ten minutes old": signed(BODY, age=600),
    "of ten minutes ahead": signed(BODY, age=-600),
    "the timestamp of another request": signed(BODY) | {"X-CI-Timestamp": str(int(time.time()) - 1)},
    "the secret of another source": signed(BODY, secret=SECRETS["BANK_SECRET"]),
    "a guess": signed(BODY) | {"X-CI-Signature": "sha256=" + "0" * 64},
    "no hex": signed(BODY) | {"X-CI-Signature": "sha256="},
}


@pytest.mark.parametrize("headers", UNSIGNED.values(), ids=UNSIGNED)
async def test_a_request_that_its_source_did_not_sign_now_is_refused_before_anything_is_sent(
    sender: Sender, wire: Wire, headers: dict[str, str]
) -> None:
    answered = await sender.post("/webhooks/ci", BODY, headers)

    assert (answered.status, answered.answer, answered.delivery_id) == (401, "refused", "")
    assert wire.calls == []


@pytest.mark.parametrize("secret", SECRETS["CI_SECRET"].split())
async def test_both_secrets_are_good_while_one_is_changed_for_the_other(sender: Sender, secret: str) -> None:
    body = json.dumps({"build": uuid.uuid4().hex, "state": "queued"}).encode()

    assert (await sender.post("/webhooks/ci", body, signed(body, secret=secret))).answer == "ignored"


async def test_standard_and_github_signatures_open_their_sources_and_no_other(sender: Sender, wire: Wire) -> None:
    ignored = b'{"state": "queued"}'
    sent = datetime.now().astimezone()
    signature = Webhook(SECRETS["MAIL_SECRET"]).sign("msg_1", sent, ignored.decode())
    standard = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(sent.timestamp())),
        "webhook-signature": signature,
    }
    github = {"X-Hub-Signature-256": GITHUB.sign(ignored, SECRETS["FORGE_SECRET"]), "X-GitHub-Delivery": "g-1"}

    answers = {
        (source, name): (await sender.post(f"/webhooks/{source}", ignored, headers)).status
        for source in ("mail", "forge", "ci")
        for name, headers in (("standard", standard), ("github", github))
    }

    assert [door for door, status in answers.items() if status == 200] == [("mail", "standard"), ("forge", "github")]
    assert set(answers.values()) == {200, 401}
    assert wire.calls == []


async def test_one_source_does_not_reach_what_is_expected_of_another(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)
        match = uuid.uuid4().hex
        await expecting(on, match, task_id, DONE, source="ci")
        body = json.dumps({"build": match, "state": "failed"}).encode()

        foreign = await sender.post("/webhooks/bank", body, signed(body, secret=SECRETS["BANK_SECRET"]))
        by_id = [await sender.ci(guess, "failed") for guess in (task_id, f"{task_id}/ci.result/done", "done")]

        assert [one.answer for one in (foreign, *by_id)] == ["kept"] * 4
        assert (await sender.ci(match, "passed")).answer == "delivered"
        assert (await submission.wait()).answer_text == "CI passed"


async def test_a_guessed_tampered_foreign_or_expired_callback_url_reaches_nothing(
    on: Stage, sender: Sender, wire: Wire
) -> None:
    good = callback_path(on, TASK, DONE)
    payload, mac = good.removeprefix("/callbacks/").split(".")
    other = callback_path(on, TASK, CiResult.key("other")).removeprefix("/callbacks/").split(".")
    foreign = gateway_settings(on).model_copy(update={"callback_secrets": SecretStr("x" * 32)})
    expired = callback_url(gateway_settings(on), TASK, DONE, expires=datetime(2026, 1, 1).astimezone())
    tokens = [TASK.replace("/", "%2F"), "done", f"{payload}.", f"{payload}.{other[1]}", f"{other[0]}.{mac}", payload]
    paths = [f"/callbacks/{token}" for token in tokens]
    paths.append(callback_url(foreign, TASK, DONE).removeprefix("http://gateway.test"))
    paths.append(good[:-1])

    answers = [await sender.post(path, b'{"status": "passed"}') for path in paths]
    late = await sender.post(expired.removeprefix("http://gateway.test"), b'{"status": "passed"}')

    assert [(one.status, one.answer) for one in answers] == [(404, "refused")] * len(paths)
    assert (late.status, late.answer) == (401, "refused")
    assert wire.calls == []


NOT_JSON = [
    b"",
    b"passed",
    b"{",
    b'{"a": NaN}',
    b'{"a": 1} x',
    b"\xff\xfe",
    b'"\\ud800"',
    b"[" * 10_000,
    b"state=passed",
]


@pytest.mark.parametrize("body", NOT_JSON, ids=repr)
async def test_a_body_that_is_not_json_is_refused(on: Stage, sender: Sender, wire: Wire, body: bytes) -> None:
    by_source = await sender.post("/webhooks/ci", body, signed(body))
    by_url = await sender.post(callback_path(on, TASK, DONE), body)

    assert [(one.status, one.answer) for one in (by_source, by_url)] == [(400, "refused")] * 2
    assert wire.calls == []


UNREADABLE = [b"{}", b"[]", b"null", b'"passed"', b'{"state": "passed"}', b'{"state": "passed", "build": ""}']
UNREADABLE += [b'{"state": "passed", "build": 7}', json.dumps({"state": "x" * 262_144, "build": "7"}).encode()]


@pytest.mark.parametrize("body", UNREADABLE, ids=lambda body: repr(body[:40]))
async def test_a_body_that_the_application_cannot_read_is_final_and_logged(
    sender: Sender, wire: Wire, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    answered = await sender.post("/webhooks/ci", body, signed(body))

    assert (answered.status, answered.answer) == (422, "invalid")
    assert any(f"cannot read webhook {answered.delivery_id}" in record.message for record in caplog.records)
    assert wire.calls == []


async def test_a_body_over_the_limit_is_refused_however_it_is_sent(on: Stage, sender: Sender, wire: Wire) -> None:
    large = json.dumps({"build": "7", "state": "x" * 300_000}).encode()

    async def in_chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(large), 4_096):
            yield large[at : at + 4_096]

    announced = await sender.post("/webhooks/ci", large, signed(large))
    streamed = await sender.http.post("/webhooks/ci", content=in_chunks(), headers=signed(large))
    by_url = await sender.post(callback_path(on, TASK, DONE), b'"' + b"x" * 1_048_576 + b'"')
    too_large_a_value = await sender.post(callback_path(on, TASK, DONE), b'"' + b"x" * 262_144 + b'"')

    assert [announced.status, streamed.status_code, by_url.status] == [413] * 3
    assert (too_large_a_value.status, too_large_a_value.answer) == (422, "invalid")
    assert wire.calls == []


@pytest.mark.parametrize("path", ["/webhooks/ci", f"/callbacks/{'a' * 20}"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_and_places_are_refused_as_json(sender: Sender, path: str, method: str) -> None:
    response = await sender.http.request(method, path)
    places = [
        await sender.post(place, BODY, signed(BODY))
        for place in ("/", "/webhooks", "/webhooks/nobody", "/webhooks/ci/", "/webhooks/ci/x")
    ]

    assert (response.status_code, response.json()["answer"], response.headers["allow"]) == (405, "refused", "POST")
    assert [(one.status, one.answer) for one in places] == [(404, "refused")] * 5


async def test_a_gateway_without_callback_secrets_knows_no_callback_url(
    on: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = callback_path(on, TASK, DONE)
    monkeypatch.setattr("tests.support.gateways.gateway_settings", lambda on: on.settings)
    async with gateway(on) as sender:
        assert (await sender.post(path, b"1")).status == 404


async def test_every_request_leaves_one_line_without_secrets_tokens_or_values(
    on: Stage, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tarry.gateway")
    path = callback_path(on, f"nobody~{uuid.uuid4().hex}/g1/t1.0", DONE)
    answers = [
        await sender.ci("7", "queued", "event-1"),
        await sender.post("/webhooks/ci", BODY),
        await sender.post(path, b'"hunter2"'),
    ]

    records = [record.message for record in caplog.records if record.name == "tarry.gateway"]
    lines = [json.loads(record) for record in records]
    assert [(one["status"], one["answer"], one["delivery_id"]) for one in lines] == [
        (one.status, one.answer, one.delivery_id) for one in answers
    ]
    assert [one.get("source", one.get("signal")) for one in lines] == ["ci", "ci", "ci.result"]
    for secret in (*SECRETS["CI_SECRET"].split(), CALLBACK_SECRETS, path.rpartition("/")[2], "hunter2"):
        assert secret not in "".join(records)


async def test_health_is_told_without_a_signature(sender: Sender) -> None:
    response = await sender.http.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
