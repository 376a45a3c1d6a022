"""The CI service behaves as a provider does: a key starts one build, which runs real tests and reports what it saw."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from tarry.demo.ci.builds import Build
from tarry.demo.ci.client import CiClient
from tarry.demo.ci.repository import FILE, FLAKY, STABLE, TESTS, check_out, edit
from tarry.demo.ci.service import SECRET, ci_service
from tarry.demo.ci.webhook import secret_of
from tests.support.programs import run
from tests.support.waiting import eventually

KEY = secret_of(b"a key that both ends are told")


@dataclass
class Receiver:
    """Takes webhooks: answers with the statuses it is given, then with 202, and keeps what was sent."""

    statuses: list[int] = field(default_factory=list)
    sent: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def answer(self, headers: dict[str, str], body: bytes) -> int:
        self.sent.append((headers, body))
        return self.statuses.pop(0) if self.statuses else 202


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(received.answer(dict(self.headers.items()), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    received.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield received
    server.shutdown()
    server.server_close()


@pytest.fixture
async def ci(receiver: Receiver, tmp_path: Path) -> AsyncIterator[CiClient]:
    environment = os.environ | {SECRET: KEY}
    child = ci_service(receiver.url, logs=tmp_path / "logs", log=tmp_path / "ci.log", environment=environment)
    async with child:
        yield CiClient(child.ready_line)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return check_out(tmp_path / "repository")


async def answered(ci: CiClient) -> Build:
    """The only build, once its webhook was answered."""
    builds = await eventually(ci.builds, lambda builds: builds[0].answered != 0)
    (build,) = builds
    return build


async def test_flaky_test_fails_and_its_failure_is_reported(ci: CiClient, repository: Path, receiver: Receiver) -> None:
    build = await ci.start(repository, TESTS, "k1")
    await ci.release(build.id)

    assert (await answered(ci)).status == "failed"
    assert json.loads(receiver.sent[0][1])["data"]["status"] == "failed"


async def test_mended_test_passes_and_its_log_can_be_read(ci: CiClient, repository: Path, receiver: Receiver) -> None:
    edit(repository, FILE, FLAKY, STABLE)
    build = await ci.start(repository, TESTS, "k1")
    await ci.release(build.id)

    assert (await answered(ci)).status == "passed"
    told = json.loads(receiver.sent[0][1])
    async with httpx.AsyncClient(trust_env=False) as client:
        log = await client.get(told["data"]["log_url"])
    assert told["data"] == {"correlation_id": "k1", "status": "passed", "log_url": str(log.url)}
    assert log.text.count("\nOK\n") == 3


async def test_same_key_gets_the_same_build(ci: CiClient, repository: Path) -> None:
    asked = [await ci.start(repository, TESTS, key) for key in ("k1", "k1", "k2")]

    assert [build.id for build in asked] == ["build-1", "build-1", "build-2"]
    assert [(build.id, build.asked) for build in await ci.builds()] == [("build-1", 2), ("build-2", 1)]


async def test_webhook_is_sent_again_under_its_id_until_it_is_answered_for_good(
    ci: CiClient, repository: Path, receiver: Receiver
) -> None:
    receiver.statuses = [503, 500]
    build = await ci.start(repository, TESTS, "k1")
    await ci.release(build.id)

    assert (await answered(ci)).answered == 202
    assert [headers["webhook-id"] for headers, _ in receiver.sent] == ["build-1-finished"] * 3


async def test_webhook_is_not_sent_again_after_a_refusal(ci: CiClient, repository: Path, receiver: Receiver) -> None:
    receiver.statuses = [410]
    build = await ci.start(repository, TESTS, "k1")
    await ci.release(build.id)

    assert (await answered(ci)).answered == 410
    assert len(receiver.sent) == 1


async def test_signature_is_the_one_that_the_standard_asks_for(
    ci: CiClient, repository: Path, receiver: Receiver
) -> None:
    build = await ci.start(repository, TESTS, "k1")
    await ci.release(build.id)
    await answered(ci)

    ((headers, body),) = receiver.sent
    assert Webhook(KEY).verify(body, headers) == json.loads(body)


@pytest.mark.parametrize("by_key", [False, True])
async def test_cancelled_build_runs_and_reports_nothing(
    ci: CiClient, repository: Path, receiver: Receiver, by_key: bool
) -> None:
    cancelled = await ci.start(repository, TESTS, "k1")
    for _ in range(2):
        await (ci.cancel_key("k1") if by_key else ci.cancel(cancelled.id))
    await ci.release(cancelled.id)

    assert [build.status for build in await ci.builds()] == ["cancelled"]
    assert receiver.sent == []


async def test_unknown_key_and_unknown_build_are_no_mishap_and_a_refusal(ci: CiClient) -> None:
    await ci.cancel_key("never seen")
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await ci.cancel("build-9")


async def test_missing_service_is_said_with_what_to_do() -> None:
    with pytest.raises(ConnectionError, match=r"no CI service answers at http://127\.0\.0\.1:9: start one with"):
        await CiClient("http://127.0.0.1:9").builds()


async def test_missing_secret_is_said_in_one_line(tmp_path: Path) -> None:
    ended = await run(sys.executable, "-m", "tarry.demo.ci.service", "--webhook", "http://x", cwd=tmp_path)

    assert (ended.code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith("ci: CI_WEBHOOK_SECRET is not set: ")


@pytest.mark.parametrize(
    ("path", "old", "why"),
    [
        ("../secret", FLAKY, "there is no file"),
        ("missing.py", FLAKY, "there is no file"),
        (FILE, "no such text", "occurs 0 times"),
        (FILE, "order", "must occur once"),
    ],
)
def test_edit_that_fits_no_place_changes_nothing(repository: Path, path: str, old: str, why: str) -> None:
    before = (repository / FILE).read_text()

    with pytest.raises(ValueError, match=why):
        edit(repository, path, old, "new")

    assert (repository / FILE).read_text() == before
