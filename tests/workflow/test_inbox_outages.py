"""What a person is told of an answer while the server, or every worker, is away (spec §23.4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.task import judging
from signals.parking import Ask, Sleep
from tarry.client import Harness, ServerUnavailable
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tests.support.gateways import GATEWAY_URL, gateway_settings
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import caller, fields_of, token_of
from tests.support.parking import ANSWER, Waits, waiting_app
from tests.support.rpcs import counted_rpcs
from tests.support.stage import idle_stage, stage, taken_up
from tests.support.waiting import eventually
from workers import gateway_sending
from workers.inbox import answering
from workers.inbox.receipts import TAKEN_UP, UNJUDGED, UNTOLD


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


async def test_where_no_worker_is_up_a_page_says_what_is_not_known_and_waits_for_none(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.asks()
            link = await Harness(on.client, gateway_settings(on)).answer_link(waiting.id, {"allow": True})
        await on.client.get_workflow_handle(waiting.id).terminate()
        path = link.removeprefix(GATEWAY_URL)
        async with caller(on) as visitor:
            with counted_rpcs() as asked:
                opened = await visitor.get(path)
                pressed = await visitor.post(path, token_of(await visitor.get("/inbox")), {})
        async with on.worker(), caller(on) as visitor:
            later = await visitor.get(path)

    assert asked["query_workflow"] == 2, "once for a page"
    assert ["Too late: it was ended by force" in page.text for page in (opened, pressed, later)] == [True] * 3
    assert [UNTOLD in page.text for page in (opened, pressed, later)] == [True, True, False]


async def test_a_kept_answer_that_a_worker_refuses_is_said_to_be_refused_and_why(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("a")], ask=Ask(text="Well?")))
    unknowing = gated_app(Ledger().edit)
    unknowing = replace(unknowing, extensions=[replace(one, signals=[]) for one in unknowing.extensions])
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "waits")
            await eventually(waiting.view, lambda view: view.state == "sleeping")
        async with caller(on, app=unknowing) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            sent = await visitor.post("/inbox/answer", token_of(page), {"value.": '{"no": 1}'} | fields_of(page))
            with counted_rpcs() as asked:
                kept = await visitor.get(sent.headers["location"])
            async with on.worker():
                refused = await eventually(
                    lambda: visitor.get(sent.headers["location"]), lambda page: "It was not taken at" in page.text
                )
                await taken_up(on.client, waiting.id)
            untold = await visitor.get(sent.headers["location"])

    assert ("Kept by the server: no worker is up" in kept.text, asked["query_workflow"]) == (True, 0)
    assert "Kept by the server" not in refused.text
    assert TAKEN_UP in untold.text


async def test_a_kept_answer_that_a_worker_judges_is_not_said_to_wait_for_one(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, plain = asyncio.Event(), asyncio.Event(), judging.verdicts

    async def held(*given: Any) -> Any:
        begun.set()
        await go.wait()
        return await plain(*given)

    monkeypatch.setattr(judging, "verdicts", held)
    waits = Waits(Sleep(signals=[ANSWER.key("a")], ask=Ask(text="Well?")))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "waits")
            await eventually(waiting.view, lambda view: view.state == "sleeping")
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            sent = await visitor.post("/inbox/answer", token_of(page), {"value.text": "yes"} | fields_of(page))
            there = sent.headers["location"]
            async with on.worker():
                await begun.wait()
                # Under load a worker may not answer a page at once.
                judged = await eventually(lambda: visitor.get(there), lambda page: TAKEN_UP not in page.text)
                go.set()
                await waiting.ends()
                delivered = await visitor.get(there)

    assert UNJUDGED in judged.text
    assert "Delivered at" in delivered.text


async def test_a_kept_answer_of_a_task_that_is_ended_by_force_is_not_kept_for_ever(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.asks()
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            sent = await visitor.post("/inbox/answer", token_of(page), {"choice": "allow"} | fields_of(page))
            await on.client.get_workflow_handle(waiting.id).terminate()
            untold = await visitor.get(sent.headers["location"])
            async with on.worker():
                lost = await visitor.get(sent.headers["location"])

    assert "Kept by the server; it was ended by force" in untold.text
    assert "nothing tells that it was taken: it was ended by force" in lost.text
