"""Whether workers are needed, over real HTTP: what scales them asks the gateway (spec §9.4)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from tarry.embedded import EmbeddedServer
from tests.support import webhook_app
from tests.support.gateways import gateway, parked
from tests.support.rpcs import counted_rpcs
from tests.support.stage import idle_stage, stage
from tests.support.waiting import eventually
from tests.support.webhook_app import waiting

TOKEN = "t" * 32
READABLE: dict[str, Any] = {"gateway_token": SecretStr(TOKEN)}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def asked(http: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
    response = await http.get(f"/wake{query}", headers=BEARER)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def test_it_tells_whether_workers_are_needed_now_or_before_long(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, waiting(seconds=600), tmp_path) as on, gateway(on, **READABLE) as sender:
        queue = on.settings.task_queue
        before = await asked(sender.http)
        submission = await on.harness.conversation().submit("test it")
        needed = await eventually(lambda: asked(sender.http), lambda told: told["workers"] == 1)
        async with on.worker():
            await parked(on, submission.conversation_id)
        idle = await eventually(lambda: asked(sender.http), lambda told: not told["active"])
        ahead = await asked(sender.http, "?ahead=900")

    assert before == {"active": False, "at": None, "why": "", "workers": 0, "task_queue": queue}
    assert (needed["active"], needed["why"]) == (True, "backlog")
    assert (idle["workers"], datetime.fromisoformat(idle["at"]).tzinfo is not None) == (0, True)
    assert ahead == idle | {"workers": 1}


async def test_who_sends_no_token_is_told_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, webhook_app.app, tmp_path) as on:
        async with gateway(on) as closed:
            nobody = await closed.http.get("/wake", headers=BEARER)
        async with gateway(on, **READABLE) as sender:
            missing = await sender.http.get("/wake")
            wrong = await sender.http.get("/wake", headers={"Authorization": "Bearer " + "x" * 32})
            bad = [await sender.http.get(f"/wake?ahead={text}", headers=BEARER) for text in ("-1", "soon", "٣", "3601")]

    assert [response.status_code for response in (nobody, missing, wrong)] == [403, 401, 401]
    assert missing.headers["WWW-Authenticate"] == "Bearer"
    assert [response.status_code for response in bad] == [400] * 4
    assert bad[0].json()["reason"] == "ahead is a whole number of seconds from 0 to 3600"


async def test_however_many_ask_one_look_goes_to_the_server(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, webhook_app.app, tmp_path) as on, gateway(on, **READABLE) as sender:
        with counted_rpcs() as alone:
            await asked(sender.http)
        # Whoever asks after the first look has gone stale waits for one that all of them share.
        with counted_rpcs() as together:
            await asyncio.gather(*(asked(sender.http) for _ in range(40)))

    assert alone["describe_task_queue"] == 2
    assert together["describe_task_queue"] <= 4
