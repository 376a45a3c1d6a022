"""What a person is told of an answer while the server goes away (spec §23.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.client import ServerUnavailable
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import caller, fields_of, token_of
from tests.support.stage import stage
from workers import gateway_sending
from workers.inbox import answering


async def test_an_answer_that_may_have_come_is_not_said_to_be_lost_where_the_server_stays_away(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise ServerUnavailable("no server answers")

    async def leaving(*_: object, **__: object) -> None:
        monkeypatch.setattr(answering, "question_at", away)
        raise ServerUnavailable("it went away in the middle")

    async with stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            monkeypatch.setattr(gateway_sending, "deliver", leaving)
            told = await visitor.post("/inbox/answer", token_of(page), {"choice": "allow"} | fields_of(page))

    assert told.status_code == 503
    assert ("It may or may not have come" in told.text, "Nothing was done" in told.text) == (True, False)
