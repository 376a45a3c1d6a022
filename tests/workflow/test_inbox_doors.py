"""Who gets into the inbox, and whose forms count (spec §23.3, §23.5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tarry.app import App
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.inbox import Inbox
from tests.support.gateways import gateway
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import TOKENS, caller, fields_of, token_of
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

PROXY: dict[str, Any] = {
    "inbox_tokens": None,
    "inbox_user_header": "X-User",
    "inbox_proxy_secret": SecretStr("p" * 32),
}
ALLOW = {"choice": "allow"}
PROVEN = {"X-Tarry-Proxy-Secret": "p" * 32}


def app_of(ledger: Ledger, inbox: Inbox | None = None) -> App:
    return replace(gated_app(ledger.edit, approvals(lambda _: True)), inbox=inbox or Inbox())


async def asked(on: Stage) -> Any:
    """A call that waits for an approval, and is listed."""
    waiting = await start_gated(on, "edit", path="a.txt")
    await waiting.asks()
    await eventually(on.harness.questions, lambda found: waiting.id in {one.task_id for one in found})
    return waiting


async def test_without_a_way_to_sign_in_there_is_no_inbox_and_the_log_says_how_to_have_one(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on:
        with caplog.at_level(logging.INFO, "tarry.inbox"):
            async with caller(on, inbox_tokens=None) as visitor:
                answers = [await visitor.get(path) for path in ("/inbox", "/inbox/history", "/inbox/events")]
        async with gateway(on) as plain:
            bare = await plain.http.get("/inbox")

    assert [answer.status_code for answer in [*answers, bare]] == [404] * 4
    assert "set TARRY_INBOX_TOKENS" in caplog.text


async def test_who_is_not_signed_in_sees_nothing_and_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    async with stage(server, app_of(ledger), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as known, caller(on) as visitor:
            await known.sign_in()
            seen = await known.get(f"/inbox/question?task={waiting.id}")
            pages = [await visitor.get(path) for path in ("/inbox", "/inbox/history", "/inbox/events")]
            wrong = await visitor.post("/inbox/sign-in", token_of(pages[0]), {"token": "x" * 32})
            answer = await visitor.post("/inbox/answer", token_of(pages[0]), ALLOW | fields_of(seen))
        assert (await waiting.view()).state == "gated"

    assert [one.status_code for one in [*pages, wrong, answer]] == [401] * 5
    assert ["a.txt" in one.text for one in [seen, *pages]] == [True, False, False, False]


async def test_a_session_is_one_persons_and_ends_when_their_token_is_taken_away(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on:
        async with caller(on) as visitor:
            await visitor.sign_in("Ana")
            cookies = {one.name: one for one in visitor.http.cookies.jar}
            session = cookies["tarry_inbox"].value or ""
            mine = await visitor.get()
        async with caller(on, inbox_tokens=SecretStr(f"Ben={TOKENS['Ben']}")) as visitor:
            visitor.http.cookies.set("tarry_inbox", session, path="/inbox")
            gone = await visitor.get()
        async with caller(on) as visitor:
            payload, _, mac = session.partition(".")
            visitor.http.cookies.set("tarry_inbox", f"{payload}.{mac[:-2]}xx", path="/inbox")
            forged = await visitor.get()

    cookie = cookies["tarry_inbox"]
    assert (cookie.has_nonstandard_attr("HttpOnly"), cookie.get_nonstandard_attr("SameSite")) == (True, "strict")
    assert cookie.path == "/inbox"
    assert [one.status_code for one in (mine, gone, forged)] == [200, 401, 401]
    assert "Signed in as Ana" in mine.text


async def test_a_header_counts_only_from_the_proxy_that_proves_itself(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on:
        async with caller(on, **PROXY) as visitor:
            tried = [
                await visitor.http.get("/inbox", headers=httpx.Headers(headers, encoding="latin-1"))
                for headers in (
                    {"X-User": "Ana"},
                    {"X-User": "Ana", "X-Tarry-Proxy-Secret": "q" * 32},
                    [("X-User", "Ana"), ("X-User", "Ben"), *PROVEN.items()],
                    {**PROVEN, "X-User": "Ana\u00ad"},
                    {**PROVEN, "X-User": "Ana"},
                )
            ]
        async with caller(on, **PROXY | {"inbox_proxy_secret": None}) as visitor:
            without_secret = await visitor.get(**{"X-User": "Ana"})

    assert [one.status_code for one in tried] == [401, 401, 401, 401, 200]
    assert without_secret.status_code == 404


async def test_an_application_signs_in_by_its_own_rules(server: EmbeddedServer, tmp_path: Path) -> None:
    async def sign_in(headers: Mapping[str, str]) -> str | None:
        if headers.get("x-team") == "broken":
            raise RuntimeError("no directory")
        return {"ops": "Olga"}.get(headers.get("x-team", ""))

    app = app_of(Ledger(), Inbox(sign_in=sign_in))
    async with idle_stage(server, app, tmp_path) as on, caller(on, inbox_tokens=None) as visitor:
        answers = [await visitor.get(**{"X-Team": team}) for team in ("", "broken", "ops")]

    assert [one.status_code for one in answers] == [401, 401, 200]
    assert "Signed in as Olga" in answers[2].text


async def test_only_who_may_answer_a_question_answers_it(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    inbox = Inbox(may_answer=lambda person, question: person == "Ben" and question.tool == "edit")
    async with stage(server, app_of(ledger, inbox), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as hers, caller(on) as his:
            await hers.sign_in("Ana")
            await his.sign_in("Ben")
            shown = await hers.get(f"/inbox/question?task={waiting.id}")
            page = await his.get(f"/inbox/question?task={waiting.id}")
            refused = await hers.post("/inbox/answer", token_of(shown), ALLOW | fields_of(page))
            assert (await waiting.view()).state == "gated"
            taken = await his.post("/inbox/answer", token_of(page), ALLOW | fields_of(page))
            await waiting.ends()

    assert "not for you to answer" in shown.text
    assert (refused.status_code, taken.status_code, len(ledger.runs)) == (403, 303, 1)


async def test_a_form_that_is_not_from_a_page_of_this_person_and_browser_changes_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    async with stage(server, app_of(ledger), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as mine, caller(on) as other:
            await mine.sign_in("Ana")
            await other.sign_in("Ana")
            page = await mine.get(f"/inbox/question?task={waiting.id}")
            form, allow = token_of(page), ALLOW | fields_of(page)
            own = {"Sec-Fetch-Site": "same-origin"}
            tries = [
                await mine.post("/inbox/answer", "", allow),
                await mine.post("/inbox/answer", f"{form}x", allow),
                await mine.post("/inbox/answer", token_of(await other.get()), allow),
                await mine.post("/inbox/answer", form, allow, {"Sec-Fetch-Site": "cross-site"}),
                await mine.post("/inbox/answer", form, allow, {"Sec-Fetch-Site": "same-site"}),
                await mine.post("/inbox/answer", form, allow, {"Origin": "https://evil.example"}),
                await mine.post("/inbox/answer", form, allow, {"Origin": "null"}),
                await mine.post("/inbox/answer", form, allow, {}),
                await mine.post("/inbox/answer", form, allow, {**own, "Origin": "https://evil.example"}),
            ]
            read = await mine.http.get("/inbox/answer", params={"form": form, **allow})
            assert (await waiting.view()).state == "gated"
            taken = await mine.post("/inbox/answer", form, allow)
            await waiting.ends()

    assert [one.status_code for one in tries] == [403] * len(tries)
    assert (read.status_code, taken.status_code, len(ledger.runs)) == (405, 303, 1)


async def test_an_answer_to_what_the_page_did_not_show_is_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    async with stage(server, app_of(ledger), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            form, shown = token_of(page), fields_of(page)
            answers = [
                await visitor.post("/inbox/answer", form, ALLOW | shown | change)
                for change in ({"digest": "0" * 32}, {"key": "0" * 32}, {"signal": "test.answer", "value.": "1"})
            ]
            nothing = await visitor.post("/inbox/answer", form, shown)
        assert await waiting.receipts() == []

    assert [(one.status_code, "The question has changed" in one.text) for one in answers] == [(409, True)] * 3
    assert nothing.status_code == 400


async def test_pages_are_kept_nowhere_framed_by_nobody_and_run_our_scripts_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on, caller(on) as visitor:
        pages = [await visitor.get(), await visitor.get("/inbox/static/inbox.js"), await visitor.get("/inbox/link/x.y")]
        await visitor.sign_in()
        pages += [await visitor.get(), await visitor.get("/inbox/history"), await visitor.get("/inbox/question?task=x")]
        outside = await visitor.get("/inbox/static/..%2froutes.py")

    policies = {page.headers["content-security-policy"] for page in pages}
    [policy] = policies
    assert all(part in policy for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"))
    assert {page.headers["cache-control"] for page in pages} == {"no-store"}
    assert {page.headers["referrer-policy"] for page in pages} == {"no-referrer"}
    assert [page.text.count("<script") for page in pages if page.text.startswith("<!doctype")] == [1] * 5
    assert outside.status_code == 404


async def test_a_name_that_cannot_be_recorded_is_nobodys(server: EmbeddedServer, tmp_path: Path) -> None:
    inbox = Inbox(sign_in=lambda headers: headers.get("x-name", "") * 50)
    async with idle_stage(server, app_of(Ledger(), inbox), tmp_path) as on, caller(on, inbox_tokens=None) as visitor:
        assert (await visitor.get(**{"X-Name": "Ana"})).status_code == 401
