"""Who gets into the inbox, and whose forms count (spec §23.3, §23.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from signals.parking import Ask, Sleep
from tarry.app import App
from tarry.core.live import Question
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.inbox import Inbox
from tests.support.gateways import gateway
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import PROVEN, PROXY, TOKENS, caller, fields_of, token_of
from tests.support.parking import ANSWER, YES, Waits, waiting_app
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import PATIENCE, eventually
from workers import gateway_body
from workers.inbox import watching
from workers.inbox.answering import Answering

ALLOW = {"choice": "allow"}


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
            tries = [
                await mine.post("/inbox/answer", "", allow),
                await mine.post("/inbox/answer", f"{form}x", allow),
                await mine.post("/inbox/answer", token_of(await other.get()), allow),
                await mine.post("/inbox/answer", form, allow, {"Sec-Fetch-Site": "cross-site"}),
                await mine.post("/inbox/answer", form, allow, {"Sec-Fetch-Site": "same-site"}),
                await mine.post("/inbox/answer", form, allow, {"Origin": "https://evil.example"}),
                await mine.post("/inbox/answer", form, allow, {"Origin": "null"}),
                await mine.post("/inbox/answer", form, allow, {}),
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
    assert {page.headers["referrer-policy"] for page in pages} == {"same-origin"}
    assert [page.text.count("<script") for page in pages if page.text.startswith("<!doctype")] == [1] * 5
    assert outside.status_code == 404


async def test_a_name_that_cannot_be_recorded_is_nobodys(server: EmbeddedServer, tmp_path: Path) -> None:
    inbox = Inbox(sign_in=lambda headers: headers.get("x-name", "") * 50)
    async with idle_stage(server, app_of(Ledger(), inbox), tmp_path) as on, caller(on, inbox_tokens=None) as visitor:
        assert (await visitor.get(**{"X-Name": "Ana"})).status_code == 401


async def test_a_form_from_an_address_without_tls_counts_where_its_browser_says_which(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on, caller(on) as visitor:
        form, right = token_of(await visitor.get()), {"token": TOKENS["Ana"]}
        own = str(visitor.http.base_url).rstrip("/")
        tries = [
            await visitor.post("/inbox/sign-in", form, right, {"Origin": own.replace("127.0.0.1", "127.0.0.2")}),
            await visitor.post("/inbox/sign-in", form, right, {}),
            await visitor.post("/inbox/sign-in", form, right, {"Origin": own}),
        ]

    assert [one.status_code for one in tries] == [403, 403, 303]


async def test_a_header_that_came_twice_is_told_to_no_sign_in_and_cookies_come_whole(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    told: list[Mapping[str, str]] = []

    def sign_in(headers: Mapping[str, str]) -> str | None:
        told.append(headers)
        return headers.get("x-team")

    app = app_of(Ledger(), Inbox(sign_in=sign_in))
    async with idle_stage(server, app, tmp_path) as on, caller(on, inbox_tokens=None) as visitor:
        twice = await visitor.http.get("/inbox", headers=[("X-Team", "Olga"), ("X-Team", "Ana")])
        once = await visitor.http.get("/inbox", headers=[("X-Team", "Olga"), ("Cookie", "a=1"), ("Cookie", "b=2")])

    assert (twice.status_code, once.status_code) == (401, 200)
    assert told[-1]["cookie"].startswith("a=1; b=2")


async def test_an_answer_to_an_earlier_question_of_the_same_call_is_refused(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    first, second = (Sleep(signals=[ANSWER.key(key) for key in keys], ask=Ask(text=f"{keys}?")) for keys in ("ab", "b"))
    waits = Waits(first, second)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        waiting = await start_gated(on, "waits")
        await eventually(waiting.view, lambda view: view.state == "sleeping")
        async with caller(on) as visitor:
            await visitor.sign_in()
            address = f"/inbox/question?task={waiting.id}"
            page = await visitor.get(address)
            await on.harness.signal(waiting.id, ANSWER.name, "a", YES, by="Ben")
            await waits.ran(2)
            await eventually(waiting.view, lambda view: view.state == "sleeping" and len(view.keys) == 1)
            value, seen = {"value.text": "yes"}, fields_of(page)
            unsaid = {name: text for name, text in seen.items() if name != "since"}
            nameless = await visitor.post("/inbox/answer", token_of(page), value | unsaid)
            earlier = await visitor.post("/inbox/answer", token_of(page), value | seen)
            now = await visitor.get(address)
            taken = await visitor.post("/inbox/answer", token_of(now), value | fields_of(now))
            await waiting.ends()

    assert seen["key"] == "b"
    assert [one.status_code for one in (nameless, earlier, taken)] == [400, 409, 303]
    assert "The question has changed" in earlier.text


async def test_who_may_answer_is_judged_by_the_very_look_that_is_answered(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Question | None] = []
    look = Answering.asked

    async def counted(self: Answering, task_id: str) -> Question | None:
        looks.append(await look(self, task_id))
        return looks[-1]

    judged: list[Question] = []

    def may_answer(person: str, question: Question) -> bool:
        judged.append(question)
        return True

    async with stage(server, app_of(Ledger(), Inbox(may_answer=may_answer)), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get(f"/inbox/question?task={waiting.id}")
            judged.clear()
            monkeypatch.setattr(Answering, "asked", counted)
            taken = await visitor.post("/inbox/answer", token_of(page), ALLOW | fields_of(page))
            await waiting.ends()

    assert (taken.status_code, len(looks)) == (303, 1)
    assert judged == looks


async def test_tasks_of_another_task_queue_are_neither_shown_nor_answered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(Ledger()), tmp_path) as on:
        waiting = await asked(on)
        async with caller(on) as known, caller(on, task_queue=f"{on.settings.task_queue}-other") as visitor:
            await known.sign_in()
            page = await known.get(f"/inbox/question?task={waiting.id}")
            await visitor.sign_in()
            shown = await visitor.get(f"/inbox/question?task={waiting.id}")
            form = token_of(await visitor.get())
            answer = await visitor.post("/inbox/answer", form, ALLOW | fields_of(page))
            told = await visitor.get(answer.headers["location"])
        assert (await waiting.view()).state == "gated"

    assert (shown.status_code, "a.txt" in shown.text) == (404, False)
    assert ["There is no such task" in one.text for one in (shown, told)] == [True, True]


async def test_what_became_of_an_answer_is_told_to_who_gave_it_and_who_was_first_too(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on:
        async with on.worker():
            waiting = await asked(on)
        async with caller(on) as hers, caller(on) as his:
            addresses = {}
            for name, visitor, choice in (("Ben", his, "deny"), ("Ana", hers, "allow")):
                await visitor.sign_in(name)
                page = await visitor.get(f"/inbox/question?task={waiting.id}")
                answer = await visitor.post("/inbox/answer", token_of(page), {"choice": choice} | fields_of(page))
                addresses[name] = answer.headers["location"]
            kept = await hers.get(addresses["Ana"])
            async with on.worker():
                await waiting.ends()
            pages = [await hers.get(addresses["Ana"]), await his.get(addresses["Ben"])]
            foreign = await hers.get(addresses["Ben"])

    assert "Kept by the server" in kept.text
    assert ["Already denied by Ben at" in pages[0].text, "Delivered at" in pages[1].text] == [True, True]
    assert 'class="told' not in foreign.text


@pytest.mark.parametrize("task", ["", "nobody", "x" * 5_000, "a\x00b", "%ff", "' OR 1=1", "a/b~c"])
async def test_a_task_that_can_be_none_is_told_to_be_none(server: EmbeddedServer, tmp_path: Path, task: str) -> None:
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on, caller(on) as visitor:
        await visitor.sign_in()
        page = await visitor.http.get("/inbox/question", params={"task": task})

    assert (page.status_code, "There is no such task" in page.text) == (404, True)


async def test_who_watches_a_list_on_which_nothing_happens_is_asked_again_who_they_are(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LONGEST", 0.5)
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on, caller(on) as visitor:
        await visitor.sign_in()
        heard = await visitor.get("/inbox/events")

    assert heard.text.count("event: standing") == 1


async def test_a_form_that_does_not_come_is_not_waited_for(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_body, "BODY_PATIENCE", 0.1)
    async with idle_stage(server, app_of(Ledger()), tmp_path) as on, caller(on) as visitor:
        url = visitor.http.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = "POST /inbox/sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 9\r\n\r\nf"
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE):
            status = await reader.readuntil(b"\r\n")
        writer.close()

    assert status == b"HTTP/1.1 408 Request Timeout\r\n"
