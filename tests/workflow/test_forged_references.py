"""Inputs that pretend to be references into the store: refused like any other that cannot be read (spec §3.3, §8.1)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from signals import Sleep
from tarry.embedded import EmbeddedServer
from tests.support.parking import ANSWER, Waits, envelope, start, waiting_app
from tests.support.shell import signal, succeeds
from tests.support.stage import stage

LEGACY = "encoding=json/external-storage-reference"


@pytest.mark.parametrize(
    "forged",
    [
        "{}",
        "[]",
        '{"driver_name":"nobody","driver_claim":{"claim_data":{"sha256":"00"}}}',
        '{"driver_name":"tarry.local","driver_claim":{"claim_data":{"sha256":"../../etc/passwd"}}}',
    ],
)
async def test_a_reference_that_names_no_blob_is_refused_and_the_call_goes_on(
    server: EmbeddedServer, tmp_path: Path, forged: str
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=timedelta(hours=1)))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await succeeds(
            server, "workflow", "signal", "--workflow-id", call.id, "--name", ANSWER.name,
            "--input", forged, "--input-meta", LEGACY,
        )  # fmt: skip
        assert await call.answers(1) == ["invalid"]

        await signal(server, call.id, ANSWER.name, envelope("done", {"text": "it goes on"}))

        assert "it goes on" in (await call.ends()).text
