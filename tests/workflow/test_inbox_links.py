"""Links by which one answer is given without signing in (spec §23.8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, SecretStr

from signals.parking import Ask, Sleep
from signals.tokens import Signal, SignalKey
from tarry.client import Harness, NotAsked
from tarry.embedded import EmbeddedServer
from tarry.gates import DECISION, Question, approvals, decision_links
from tarry.inbox import answer_link
from tests.support.gateways import CALLBACK_SECRETS, GATEWAY_URL, gateway_settings
from tests.support.gating import Gated, Ledger, gated_app, start_gated
from tests.support.inboxes import Caller, caller, token_of
from tests.support.parking import ANSWER, YES, Waits, waiting_app
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

OFF: dict[str, Any] = {"inbox_tokens": None}
"""Nobody can sign in: links need that in no way."""


def path_of(url: str) -> str:
    assert url.startswith(f"{GATEWAY_URL}/inbox/link/")
    return url.removeprefix(GATEWAY_URL)


async def asked(on: Stage) -> Gated:
    waiting = await start_gated(on, "edit", path="a.txt")
    await waiting.asks()
    return waiting


async def press(visitor: Caller, path: str, fields: Mapping[str, str] | None = None) -> httpx.Response:
    """Open a link and press its button."""
    page = await visitor.get(path)
    return await visitor.post(path, token_of(page), fields or {})


async def linked(on: Stage, waiting: Gated, value: Any, **options: Any) -> str:
    """The path of a link for what a call asks."""
    harness = Harness(on.client, gateway_settings(on))
    return path_of(await harness.answer_link(waiting.id, value, **options))


async def test_opening_a_link_decides_nothing_and_its_button_decides_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await asked(on)
        path = await linked(on, waiting, {"allow": True}, person="Ana")
        async with caller(on, **OFF) as visitor, caller(on, **OFF) as scanner:
            page = await visitor.get(path)
            looks = [await scanner.get(path) for _ in range(3)] + [await scanner.http.head(path)]
            bare = await scanner.http.post(path)
            foreign = await scanner.post(path, token_of(page), {}, {"Sec-Fetch-Site": "cross-site"})
            assert (await waiting.view()).state == "gated"
            told = await press(visitor, path, {"reason": "looks right"})
            outcome = await waiting.ends()
            again = await visitor.post(path, token_of(page), {"reason": "changed my mind"})
            reopened = await visitor.get(path)

    assert ("a.txt" in page.text, "Allow as Ana" in page.text) == (True, True)
    assert [one.status_code for one in [*looks, bare, foreign]] == [200, 200, 200, 200, 403, 403]
    assert "Delivered" in told.text
    assert ["Delivered at" in one.text for one in (again, reopened)] == [True, True]
    assert "Approved by Ana: looks right" in outcome.text
    assert len(ledger.runs) == 1


async def test_of_two_links_the_first_that_is_used_counts(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await asked(on)
        allow = await linked(on, waiting, {"allow": True}, person="Ana")
        deny = await linked(on, waiting, {"allow": False, "reason": "no"}, person="Ben")
        async with caller(on, **OFF) as visitor:
            first_page = await visitor.get(allow)
            await press(visitor, deny)
            outcome = await waiting.ends()
            second = await visitor.post(allow, token_of(first_page), {})

    assert (outcome.code, ledger.runs) == ("denied", [])
    assert "Already denied by Ben at" in second.text


async def test_a_link_is_good_for_its_question_and_its_time_alone(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting, other = await asked(on), await start_gated(on, "edit", path="b.txt")
        settings, key = gateway_settings(on), (await waiting.asks()).keys[0]
        await other.asks()
        soon, long_ago = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(seconds=1)
        good = path_of(answer_link(settings, waiting.id, key, {"allow": True}, digest=key.key, expires=soon))
        elsewhere = path_of(answer_link(settings, other.id, key, {"allow": True}, digest=key.key, expires=soon))
        expired = path_of(answer_link(settings, waiting.id, key, {"allow": True}, digest=key.key, expires=long_ago))
        async with caller(on, **OFF) as visitor:
            form = token_of(await visitor.get(good))
            changed = f"{good[:-4]}{'AAAA' if good[-4:] != 'AAAA' else 'BBBB'}"
            answers = [await visitor.post(path, form, {}) for path in (elsewhere, expired, changed)]
            rotated = {"callback_secrets": SecretStr(f"{'n' * 32} {CALLBACK_SECRETS}")}
            async with caller(on, **OFF | rotated) as after:
                kept = await after.get(good)
            async with caller(on, **OFF | {"callback_secrets": SecretStr("n" * 32)}) as later:
                gone = await later.get(good)
        assert [await one.receipts() for one in (waiting, other)] == [[], []]

    assert [one.status_code for one in answers] == [409, 410, 404]
    assert (kept.status_code, gone.status_code) == (200, 404)


async def test_a_link_of_a_later_question_of_the_same_call_is_another_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    second = approvals(lambda _: True, name="second")
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True), second), tmp_path) as on:
        waiting = await asked(on)
        path = await linked(on, waiting, {"allow": True}, person="Ana")
        async with caller(on, **OFF) as visitor:
            page = await visitor.get(path)
            await visitor.post(path, token_of(page), {})
            await waiting.asks(lambda view: view.keys[0].key.startswith("second:"))
            again = await visitor.post(path, token_of(page), {})
            reopened = await visitor.get(path)
            assert (await waiting.view()).state == "gated"
        with pytest.raises(NotAsked, match="waits for"):
            await linked(on, waiting, {"allow": True}, key=SignalKey(DECISION.name, "other"))

    assert ["Delivered at" in one.text for one in (again, reopened)] == [True, True]
    assert ledger.runs == []


async def test_the_gate_itself_hands_out_links_that_name_whom_they_are_for(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    sent: list[tuple[str, str]] = []
    made: list[Stage] = []

    def post(call: Any, question: Question) -> None:
        sent.append(decision_links(question, person="Olga", settings=gateway_settings(made[0])))

    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True, notify=post)), tmp_path) as on:
        made.append(on)
        waiting = await asked(on)
        async with caller(on, **OFF) as visitor:
            told = await press(visitor, path_of(sent[0][1]), {"reason": "not now"})
        outcome = await waiting.ends()

    assert ("Delivered" in told.text, len(sent)) == (True, 1)
    assert "denied by Olga and not run. not now" in outcome.text


async def test_what_cannot_be_a_link_is_refused_when_it_is_made(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await asked(on)
        with pytest.raises(ValueError, match="at most 2000 characters"):
            await linked(on, waiting, {"text": "x" * 3_000})
        with pytest.raises(ValueError, match="a person's name"):
            await linked(on, waiting, {"allow": True}, person="a\nb")
        with pytest.raises(ValueError, match="time zone"):
            await linked(on, waiting, {"allow": True}, expires=datetime.fromisoformat("2030-01-01"))
        path = await linked(on, waiting, {"allow": True})
        await eventually(on.harness.questions)

    assert json.dumps(path) == f'"{path}"'


async def test_of_two_links_for_nobody_the_second_is_not_told_that_they_were_first(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await asked(on)
        allow, deny = [await linked(on, waiting, {"allow": choice}) for choice in (True, False)]
        async with caller(on, **OFF) as visitor:
            page = await visitor.get(allow)
            await press(visitor, deny)
            await waiting.ends()
            told = await visitor.post(allow, token_of(page), {})

    assert "Already denied by whoever holds the link at" in told.text


async def test_a_key_that_lists_do_not_show_whole_is_answered_by_a_link_that_names_it_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    key = ANSWER.key("k" * 300)
    waits = Waits(Sleep(signals=[key], ask=Ask(text="Well?")))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        waiting = await start_gated(on, "waits")
        await eventually(waiting.view, lambda view: view.state == "sleeping")
        with pytest.raises(NotAsked, match="name it"):
            await linked(on, waiting, YES)
        path = await linked(on, waiting, YES, key=key, person="Ana")
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            told = await press(visitor, path)
            await waiting.ends()
            again = await visitor.get(path)

    assert "is too long to be answered here" in page.text
    assert ["Delivered" in one.text for one in (told, again)] == [True, True]


async def test_a_value_of_another_signal_goes_as_it_is_though_it_looks_like_a_decision(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[SWITCH.key("s")], ask=Ask(text="On?")), token=SWITCH)
    async with stage(server, waiting_app(waits.tool, signals=(SWITCH,)), tmp_path) as on:
        waiting = await start_gated(on, "waits")
        await eventually(waiting.view, lambda view: view.state == "sleeping")
        path = await linked(on, waiting, {"allow": True, "text": "on"}, person="Ana")
        async with caller(on, **OFF) as visitor:
            page = await visitor.get(path)
            told = await press(visitor, path, {"reason": "no part of it"})
            outcome = await waiting.ends()

    assert "This link answers:" in page.text
    assert ("Delivered" in told.text, outcome.text.endswith(": on")) == (True, True)


class Switch(BaseModel):
    """Looks like an approval, and is none."""

    allow: bool
    text: str


SWITCH = Signal("test.switch", 1, Switch)
