"""People who answer agents at the inbox, in a real browser (spec §23)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, expect
from pydantic import BaseModel, Field

from signals.parking import Ask, Sleep
from signals.tokens import Signal
from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.testing import ScriptedModel, say
from tarry.tools import tool
from tests.support.gating import Gated, Ledger, gated_app, start_gated
from tests.support.inboxes import Desk, desk
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually
from workers.inbox import sessions, watching


class Window(BaseModel):
    """When a database may stand still."""

    minutes: int = Field(ge=1, le=240)
    risk: Literal["low", "high"]
    hosts: list[str] = []
    note: str | None = None


WINDOW = Signal("test.window", 1, Window, for_people=True)


def asking_app() -> App:
    """An application with a tool that asks for a window, and tells what it was given."""

    @tool(replay="safe")
    async def migrate(api: ToolApi) -> str | Sleep:
        """Move a database."""
        if isinstance(found := await api.read_signal(WINDOW, "w"), Received):
            return found.value.model_dump_json()
        return Sleep(signals=[WINDOW.key("w")], until=timedelta(hours=1), ask=Ask(text="When may it stand still?"))

    return App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", [migrate], [WINDOW])])


@asynccontextmanager
async def asked(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser, ledger: Ledger
) -> AsyncIterator[tuple[Stage, Gated, Desk]]:
    """A call of `edit` that waits for an approval, with a worker up, and an inbox."""
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with desk(on, chromium) as inbox:
            yield on, waiting, inbox


async def listed(page: Page, text: str) -> None:
    """Return when a question is on the page, loading it again until it is: a page without scripts stands still."""

    async def found() -> int:
        await page.reload()
        return await page.get_by_role("article").filter(has_text=text).count()

    await eventually(found)


async def decide(page: Page, choice: str, reason: str = "") -> None:
    """Answer the only question of a page."""
    await page.get_by_label("Reason").fill(reason)
    await page.get_by_role("button", name=choice, exact=True).click()


async def test_a_call_runs_with_what_the_page_showed_once_a_person_allows_it(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with asked(server, tmp_path, chromium, ledger) as (_, waiting, inbox), inbox.person("Ana") as page:
        await expect(page.get_by_role("article")).to_contain_text("a.txt")
        await decide(page, "Allow", "it can be built again")
        await expect(page.get_by_role("status")).to_contain_text("Allowed. Delivered")
        await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        await expect(page).to_have_url(f"{inbox.url}/inbox")  # who loads it again is not told again
        await expect(page.get_by_role("status")).to_contain_text("Allowed. Delivered")
        outcome = await waiting.ends()

    assert ledger.runs == [{"path": "a.txt", "mode": "w"}]
    assert "Approved by Ana: it can be built again" in outcome.text


async def test_a_denial_reaches_the_model_with_its_reason_and_stands_in_the_history(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with asked(server, tmp_path, chromium, ledger) as (_, waiting, inbox), inbox.person("Ben") as page:
        await decide(page, "Deny", "use the staging host")
        await expect(page.get_by_role("status")).to_contain_text("Denied. Delivered")
        outcome = await waiting.ends()
        decision = page.get_by_role("listitem").filter(has_text="Ben denied edit")
        await page.get_by_role("link", name="History").click()
        await expect(decision).to_contain_text("use the staging host")
        await expect(decision).to_contain_text("did not run: denied")

    assert (outcome.code, ledger.runs) == ("denied", [])
    assert "denied by Ben and not run. use the staging host" in outcome.text


async def test_of_two_people_the_second_is_told_who_was_first(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with (
        asked(server, tmp_path, chromium, ledger) as (_, waiting, inbox),
        inbox.person("Ana") as hers,
        inbox.person("Ben", java_script_enabled=False) as his,
    ):
        await decide(hers, "Deny", "not today")
        await expect(hers.get_by_role("status")).to_contain_text("Delivered")
        await waiting.ends()
        await decide(his, "Allow")
        told = his.get_by_role("status")
        await expect(told).to_contain_text("Already denied by Ana at")
        await expect(told).to_contain_text("not today")

    assert ledger.runs == []


async def test_an_answer_after_the_deadline_is_told_that_it_expired(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, approvals(lambda _: True, deadline=timedelta(seconds=30)))
    async with (
        stage(server, app, tmp_path) as on,
        desk(on, chromium) as inbox,
        inbox.person("Ana", java_script_enabled=False) as page,
    ):
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        await listed(page, "a.txt")
        outcome = await waiting.ends()
        await decide(page, "Allow")
        await expect(page.get_by_role("status")).to_contain_text("It expired at")

    assert (outcome.code, ledger.runs) == ("expired", [])


async def test_an_answer_is_kept_while_no_worker_is_up_and_its_receipt_follows(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, approvals(lambda _: True))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person("Ana") as page:
            await decide(page, "Allow")
            await expect(page.get_by_role("status").first).to_contain_text("Kept by the server: no worker is up")
            async with on.worker():
                await waiting.ends()
                await expect(page.get_by_role("status").first).to_contain_text("Allowed. Delivered at")

    assert ledger.runs == [{"path": "a.txt", "mode": "w"}]


async def test_a_form_of_the_signal_loses_nothing_that_was_typed_and_says_what_is_wrong_where(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    async with stage(server, asking_app(), tmp_path) as on:
        waiting = await start_gated(on, "migrate")
        async with desk(on, chromium) as inbox, inbox.person("Ana") as page:
            await page.get_by_role("link", name="Answer").click()
            await page.get_by_label("Minutes").fill("400")
            await page.get_by_label("Risk").select_option("low")
            await page.get_by_label("Hosts").fill('["db-1", "db-2"')
            await page.get_by_label("Note").fill("at night")
            await page.get_by_role("button", name="Answer").click()
            await expect(page.get_by_text("This is no JSON")).to_be_visible()
            await page.get_by_label("Hosts").fill('["db-1", "db-2"]')
            await page.get_by_role("button", name="Answer").click()
            await expect(page.get_by_label("Minutes")).to_have_value("400")
            await expect(page.get_by_label("Note")).to_have_value("at night")
            await expect(page.get_by_label("Minutes")).to_have_accessible_description(
                "Input should be less than or equal to 240"
            )
            await page.get_by_label("Minutes").fill("40")
            await page.get_by_role("button", name="Answer").click()
            await expect(page.get_by_role("status")).to_contain_text("Answered. Delivered")
            outcome = await waiting.ends()

    assert outcome.text == '{"minutes":40,"risk":"low","hosts":["db-1","db-2"],"note":"at night"}'


async def test_the_list_follows_what_happens_and_leaves_alone_what_somebody_is_writing(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with asked(server, tmp_path, chromium, ledger) as (on, waiting, inbox), inbox.person("Ana") as page:
        mine = page.get_by_role("article").filter(has_text="a.txt")
        await mine.get_by_label("Reason").fill("half a sent")
        other = await start_gated(on, "edit", path="b.txt")
        theirs = page.get_by_role("article").filter(has_text="b.txt")
        await expect(theirs).to_be_visible()
        await expect(page.get_by_role("heading", name="2 questions wait")).to_be_visible()
        await expect(mine.get_by_label("Reason")).to_have_value("half a sent")
        await other.decide(True, by="ben")
        await expect(theirs).to_have_count(0)
        await waiting.decide(True, by="ben")
        await expect(mine).to_contain_text("This is not asked any more")
        await expect(mine.get_by_label("Reason")).to_have_value("half a sent")
        await expect(mine.get_by_role("button", name="Allow")).to_be_disabled()


async def test_pages_that_stay_open_tell_that_a_question_expired_and_leave_alone_what_somebody_is_writing(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, approvals(lambda _: True, deadline=timedelta(seconds=30)))
    async with stage(server, app, tmp_path) as on, desk(on, chromium) as inbox, inbox.person("Ana") as listing:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        single = await listing.context.new_page()
        await single.goto(f"/inbox/question?task={quote(waiting.id)}")
        for page in (listing, single):
            await page.get_by_label("Reason").fill("half a sent")
        for page in (listing, single):
            await expect(page.get_by_role("article")).to_contain_text("It expired at")
            await expect(page.get_by_label("Reason")).to_have_value("half a sent")
            await expect(page.get_by_role("button", name="Allow")).to_be_disabled()
            await expect(page.get_by_text("left", exact=False)).to_have_count(0)

    assert ledger.runs == []


async def test_the_page_of_a_question_holds_a_stream_while_somebody_sees_it_and_catches_up_afterwards(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    async def show(page: Page, *, hidden: bool) -> None:
        told = f"{{ value: {str(hidden).lower()}, configurable: true }}"
        await page.evaluate(f"Object.defineProperty(document, 'hidden', {told})")
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    async with asked(server, tmp_path, chromium, Ledger()) as (_, waiting, inbox), inbox.person("Ana") as listing:
        single = await listing.context.new_page()
        await single.goto(f"/inbox/question?task={quote(waiting.id)}")
        await show(single, hidden=True)
        await waiting.decide(True, by="ben")
        await expect(listing.get_by_role("article")).to_have_count(0)
        unseen = await single.get_by_role("article").get_by_role("status").count()
        await show(single, hidden=False)
        await expect(single.get_by_role("article").get_by_role("status")).to_contain_text("Too late: it is over")

    assert unseen == 0


async def test_a_page_that_stays_open_renews_its_forms_and_leaves_alone_what_somebody_is_writing(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LONGEST", 0.5)
    monkeypatch.setattr(watching, "RETRY_MS", 100)
    monkeypatch.setattr(sessions, "RENEWED_SECONDS", 1)
    ledger = Ledger()
    async with asked(server, tmp_path, chromium, ledger) as (_, waiting, inbox), inbox.person("Ana") as page:
        mine = page.get_by_role("article").filter(has_text="a.txt")
        await mine.get_by_label("Reason").fill("all in order")
        token = mine.locator("input[name=form]")
        old, plain = await token.input_value(), sessions.Sessions.is_form

        def is_form(self: sessions.Sessions, given: str, bound: str, now: float) -> bool:
            return given != old and plain(self, given, bound, now)

        monkeypatch.setattr(sessions.Sessions, "is_form", is_form)
        await expect(token).not_to_have_value(old)
        await expect(mine.get_by_label("Reason")).to_have_value("all in order")
        await mine.get_by_role("button", name="Allow").click()
        await expect(page.get_by_role("status")).to_contain_text("Allowed. Delivered")
        await waiting.ends()

    assert len(ledger.runs) == 1
