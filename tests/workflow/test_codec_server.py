"""The codec server: who may ask it, what it answers, and the `temporal` command through it (docs/security.md)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal as signals
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload, Payloads

from signals import Sleep
from tarry.codec import KeysError
from tarry.codec.unreadable import ENCODING
from tarry.connect import INLINE_BYTES, converter_of
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tarry.settings import Settings, SettingsError
from tests.support.command import Command, interrupt
from tests.support.keys import VARIABLES, codec
from tests.support.parking import ANSWER, Answer, Waits, envelope, start, waiting_app
from tests.support.programs import ROOT
from tests.support.shell import succeeds
from tests.support.stage import stage
from tests.support.waiting import PATIENCE
from workers.codec_server import MAX_BODY, Server, build_codec_server
from workers.gateway import listen, url_of

TOKEN = "t" * 32
UI = "http://localhost:8233"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of tests, where the settings say they are."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path), codec_token=SecretStr(f"{'old' * 11} {TOKEN}"), **codec("new"))


@contextlib.asynccontextmanager
async def codec_server(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A codec server on a free port, and whoever asks it."""
    server = Server(build_codec_server(settings))
    listening = listen(settings.codec_host, 0)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        async with httpx.AsyncClient(base_url=url_of(listening), trust_env=False, timeout=PATIENCE) as http:
            yield http
    finally:
        server.should_exit = True
        await serving


async def asked(http: httpx.AsyncClient, path: str, *payloads: Payload) -> list[Payload]:
    """What it makes of payloads."""
    body = MessageToDict(Payloads(payloads=payloads))
    answer = await http.post(path, json=body, headers=BEARER)
    assert answer.status_code == 200, answer.text
    return list(ParseDict(answer.json(), Payloads()).payloads)


def plain(text: str) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(text).encode())


async def test_what_is_encrypted_is_decoded_and_what_is_sent_is_encrypted(settings: Settings) -> None:
    [mine] = await converter_of(settings).encode(["secret"])
    async with codec_server(settings) as http:
        [decoded] = await asked(http, "/decode", mine)
        [encoded] = await asked(http, "/encode", plain("secret"))

    assert decoded == plain("secret")
    assert encoded.metadata["encoding"] == ENCODING
    assert await converter_of(settings).decode([encoded]) == ["secret"]


async def test_what_the_store_keeps_is_shown_too(settings: Settings) -> None:
    large = "x" * INLINE_BYTES
    [stored] = await converter_of(settings).encode([large])
    assert stored.external_payloads
    async with codec_server(settings) as http:
        assert await asked(http, "/decode", stored) == [plain(large)]


async def test_of_many_payloads_each_is_answered_and_one_that_does_not_open_says_why(
    settings: Settings, tmp_path: Path
) -> None:
    [mine] = await converter_of(settings).encode(["mine"])
    [other] = await converter_of(settings.model_copy(update=codec("old"))).encode(["other"])
    [gone] = await converter_of(settings.model_copy(update={"store": str(tmp_path / "gone")})).encode(["x" * 50_000])
    forged = Payload(metadata=mine.metadata, data=mine.data[:-1] + b"x")
    async with codec_server(settings.model_copy(update={"store": str(tmp_path / "other")})) as http:
        found = await asked(http, "/decode", mine, other, forged, gone, plain("clear"))

    said = [json.loads(one.data) for one in found]
    assert [said[0], said[4]] == ["mine", "clear"]
    assert said[1].startswith("unreadable: it is encrypted with key old, which this process does not have")
    assert said[2].startswith("unreadable: it does not fit key new")
    assert said[3].startswith("unreadable: blob ")


async def test_only_who_has_the_token_is_answered(settings: Settings) -> None:
    [mine] = await converter_of(settings).encode(["secret"])
    body: Any = MessageToDict(Payloads(payloads=[mine]))
    async with codec_server(settings) as http:
        codes = [
            (await http.post("/decode", json=body, headers=headers)).status_code
            for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}, BEARER)
        ]
        in_path = [(await http.post(f"/{token}/decode", json=body)).status_code for token in (TOKEN, "x" * 32)]
        rotated = await http.post("/decode", json=body, headers={"Authorization": f"Bearer {'old' * 11}"})

    assert codes == [401, 401, 401, 200]
    assert in_path == [200, 401]
    assert rotated.status_code == 200


async def test_the_pages_of_the_web_ui_may_ask_and_those_of_no_other_origin(settings: Settings) -> None:
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-namespace",
    }
    async with codec_server(settings) as http:
        preflight = await http.options("/decode", headers={"Origin": UI, **asks})
        answer = await http.post("/decode", json={}, headers={"Origin": UI, **BEARER})
        foreign = await http.options("/decode", headers={"Origin": "https://evil.example", **asks})
        refused = await http.post("/decode", json={}, headers={"Origin": "https://evil.example", **BEARER})

    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, UI)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, UI)
    assert "access-control-allow-origin" not in foreign.headers
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b'{"payloads": 1}', 400), (b"\xff", 400), (b"x" * (MAX_BODY + 1), 413), (b"{}", 200)],
)
async def test_what_is_no_request_is_refused(settings: Settings, body: bytes, status: int) -> None:
    async with codec_server(settings) as http:
        assert (await http.post("/decode", content=body, headers=BEARER)).status_code == status


async def test_what_it_logs_holds_neither_token_nor_text(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    [mine] = await converter_of(settings).encode(["secret-text"])
    with caplog.at_level("INFO"):
        async with codec_server(settings) as http:
            await asked(http, "/decode", mine)
            await http.post(f"/{TOKEN}/decode", content=b"secret-text")

    lines = [record.getMessage() for record in caplog.records if record.name == "tarry.codec"]
    assert len(lines) == 2
    assert [line for line in lines if TOKEN in line or "secret-text" in line] == []


def test_without_keys_or_a_token_it_does_not_start(settings: Settings) -> None:
    with pytest.raises(KeysError, match="nothing is encrypted: set TARRY_CODEC_KEYS"):
        build_codec_server(settings.model_copy(update={"codec_keys": None, "codec_active": None}))
    with pytest.raises(SettingsError, match="TARRY_CODEC_TOKEN is missing"):
        build_codec_server(settings.model_copy(update={"codec_token": None}))


# The real commands.


@pytest.fixture
def tarry(server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command in a folder of its own, with a key and a token."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith("TARRY_")}
    chosen = codec("new")
    variables = {
        "TARRY_CODEC_KEYS": chosen["codec_keys"],
        "TARRY_CODEC_ACTIVE": "new",
        "TARRY_CODEC_TOKEN": TOKEN,
        "TARRY_CODEC_PORT": "0",
        "PYTHONPATH": str(ROOT),
    }
    return Command(folder, kept | variables)


async def test_the_temporal_command_shows_and_sends_through_it(
    server: EmbeddedServer, tarry: Command, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=timedelta(hours=1), ask="Did it work?"))
    async with stage(server, waiting_app(waits.tool), tmp_path / "store", **codec("new")) as on:
        call = await start(on, waits.tool)
        await call.parked()
        async with tarry.started("codec", variables={"TARRY_STORE": on.settings.store}) as process:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                word, url = (await process.stdout.readline()).decode().split()
            through = ("--codec-endpoint", url, "--codec-auth", f"Bearer {TOKEN}")
            shown = await succeeds(server, "workflow", "describe", "--workflow-id", call.id, *through)
            blind = await succeeds(server, "workflow", "describe", "--workflow-id", call.id)
            await succeeds(
                server, "workflow", "signal", "--workflow-id", call.id, "--name", ANSWER.name,
                "--input", envelope("done", {"text": "from a shell"}), *through,
            )  # fmt: skip
            outcome = await call.ends()
            ended = await interrupt(process, signals.SIGTERM)

    assert word == "ready"
    assert "Did it work?" in shown
    assert "Did it work?" not in blind
    assert "from a shell" in outcome.text
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("name", ["TARRY_CODEC_KEYS", "TARRY_CODEC_TOKEN"])
async def test_a_codec_server_that_cannot_serve_says_so_in_one_line(tarry: Command, name: str) -> None:
    done = await tarry.run("codec", **{name: ""})

    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert name in done.err


def kept_in(file: Path) -> tuple[str, int]:
    """What a file holds, and who may read it."""
    return file.read_text(), file.stat().st_mode & 0o777


async def test_a_key_is_made_once_for_its_owner_alone_and_the_steps_are_told(tarry: Command) -> None:
    made = await tarry.run("keys", "new", "2026-11", "--json")
    again = await tarry.run("keys", "new", "2026-11")

    found = made.json
    file = Path(found["file"])
    text, mode = kept_in(file)
    assert (len(base64.urlsafe_b64decode(text)), mode) == (32, 0o600)
    assert [step["TARRY_CODEC_ACTIVE"] for step in found["steps"]] == ["new", "2026-11"]
    assert found["steps"][1]["TARRY_CODEC_KEYS"] == f"new=env:TEST_KEY_NEW 2026-11=file:{file}"
    assert text.strip() not in made.out + made.err
    assert (again.code, kept_in(file)) == (2, (text, mode))
    assert "is there already" in again.err


async def test_the_first_key_is_handed_out_before_it_is_used(tarry: Command) -> None:
    made = await tarry.run("keys", "new", "first", "--json", TARRY_CODEC_KEYS="", TARRY_CODEC_ACTIVE="")

    steps = made.json["steps"]
    assert [step["TARRY_CODEC_ACTIVE"] for step in steps] == ["none", "first", "first"]
    assert [step.get("TARRY_CODEC_CLEAR") for step in steps] == [None, "true", None]


async def test_keys_are_listed_by_fingerprint_and_one_that_is_missing_is_named(tarry: Command) -> None:
    listed = await tarry.run("keys", "list", "--json", **variables_of("old", "new"))
    missing = await tarry.run("keys", "list", TEST_KEY_NEW="")

    keys = listed.json
    assert [key["id"] for key in keys["keys"]] == ["old", "new"]
    assert (keys["active"], keys["reads_clear"]) == ("new", False)
    assert [secret for secret in VARIABLES.values() if secret in listed.out] == []
    assert (missing.code, missing.err) == (2, "tarry: key new is missing: the variable TEST_KEY_NEW is not set\n")


def variables_of(*ids: str) -> dict[str, str]:
    return {"TARRY_CODEC_KEYS": codec("new", *ids)["codec_keys"]}


async def test_keys_that_open_work_needs_are_counted_without_a_key(
    server: EmbeddedServer, tarry: Command, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=timedelta(hours=1)))
    async with (
        stage(server, waiting_app(waits.tool), tmp_path / "a", **codec("old")) as encrypted,
        stage(server, waiting_app(waits.tool), tmp_path / "b") as clear,
    ):
        first, second = await start(encrypted, waits.tool), await start(clear, waits.tool)
        await first.parked()
        await second.parked()
        query = f"WorkflowId IN ('{first.id}', '{second.id}') AND ExecutionStatus = 'Running'"
        done = await tarry.run("keys", "used", "--query", query, "--json")

    counted = done.json
    assert counted["workflows"] == 2
    assert counted["keys"]["old"]["workflows"] == [first.id]
    assert counted["keys"]["clear"]["workflows"] == [second.id]


async def test_ids_of_patches_which_nobody_encrypts_do_not_count_as_clear(
    server: EmbeddedServer, tarry: Command, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=timedelta(hours=1)))
    async with stage(server, waiting_app(waits.tool), tmp_path, **codec("old")) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await on.harness.signal(call.id, ANSWER, "done", Answer(text="yes"), by="Ana")
        await call.ends()
        done = await tarry.run("keys", "used", "--query", f"WorkflowId = '{call.id}'", "--json")
        history = await on.client.get_workflow_handle(call.id).fetch_history()

    assert [event.marker_recorded_event_attributes.marker_name for event in history.events].count("core_patch") == 1
    assert list(done.json["keys"]) == ["old"]
