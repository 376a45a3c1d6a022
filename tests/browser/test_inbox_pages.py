"""The inbox as a page: hostile texts, small screens, no scripts, many questions (spec §23.1, §23.5)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from signals.parking import Ask, Sleep
from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.hooks import HookCall
from tarry.redaction import Shown
from tarry.testing import ScriptedModel, say
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import desk
from tests.support.parking import ANSWER, Waits
from tests.support.stage import idle_stage, stage
from tests.support.waiting import eventually
from workers.inbox import listing

PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
HIDDEN = "rm \u202egpj.cod\u202c pаypal.com\u200b"
"""Reversed, with a Cyrillic letter in a Latin word, and a blank that nobody sees."""


def asks(call: HookCall) -> Ask:
    return Ask(text=f"Write {HOSTILE}?", for_whom=HOSTILE[:60])


async def is_clean(page: Page) -> bool:
    """Whether nothing of a model's text became part of the page."""
    made: int = await page.locator("main img, main script, main iframe, main a[href^=javascript]").count()
    return made == 0 and await page.title() != "owned"


async def test_what_a_model_wrote_is_shown_and_is_never_markup(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger, said = Ledger(), list[str]()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True, ask=asks)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path=f'"><b id=x>{HOSTILE}', mode="'; --")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person() as page:
            page.on("console", lambda message: said.append(message.text))
            await expect(page.get_by_role("article")).to_contain_text(HOSTILE)
            clean = [await is_clean(page)]
            await page.get_by_role("link", name="Details").click()
            await expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
            clean.append(await is_clean(page))
            await page.get_by_label("Reason").fill(HOSTILE)
            await page.get_by_role("button", name="Deny").click()
            await expect(page.get_by_role("status")).to_contain_text("Delivered")
            await waiting.ends()
            await page.get_by_role("link", name="History").click()
            await expect(page.get_by_role("listitem").first).to_contain_text(HOSTILE)
            clean.append(await is_clean(page))

    assert (clean, [one for one in said if "Content Security" in one]) == ([True] * 3, [])


async def test_characters_that_deceive_are_shown_by_what_they_are(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    async with stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path=HIDDEN)
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person() as page:
            marked = page.get_by_role("article").get_by_role("table").locator(".odd")
            await expect(marked).to_have_text(["U+202E", "U+202C", "а", "U+200B"])
            await expect(marked.nth(2)).to_have_attribute("title", "U+0430 cyrillic small letter a")


async def test_a_long_value_is_decided_where_all_of_it_can_be_read_also_with_no_worker_up(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    text = "x" * 3_000 + " and then rm -rf /"
    async with idle_stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path=text)
            await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person(java_script_enabled=False) as page:
            await expect(page.get_by_role("button", name="Allow")).to_have_count(0)
            await page.get_by_role("link", name="Read all of it and decide").click()
            await expect(page.get_by_text("and then rm -rf /")).to_be_hidden()
            await page.get_by_text("show all 3,018 characters").click()
            await expect(page.get_by_text("and then rm -rf /")).to_be_visible()
            await expect(page.get_by_role("button", name="Allow")).to_be_visible()


async def test_secrets_are_shown_on_no_page(server: EmbeddedServer, tmp_path: Path, chromium: Browser) -> None:
    def redact(shown: Shown) -> Any:
        if shown.field == "arguments":
            return {name: value for name, value in shown.value.items() if name != "path"}
        return shown.value.replace("s3cret", "…")

    tools = Extension("test", [Ledger().edit], [ANSWER])
    model = ScriptedModel([say("unused")])
    app = App(model=model, extensions=[tools, approvals(lambda _: True)], redact=redact)
    async with stage(server, app, tmp_path) as on:
        waiting = await start_gated(on, "edit", path="s3cret")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person() as page:
            texts = [await page.content()]
            await page.get_by_role("article").get_by_role("link", name="Details").click()
            await expect(page.get_by_text("does not let all of the arguments be seen")).to_be_visible()
            texts.append(await page.content())

    assert ["s3cret" in text for text in texts] == [False, False]


async def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="/srv/" + "a-very-long-folder-name/" * 8)
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person(**PHONE) as page:
            allow = page.get_by_role("button", name="Allow")
            await expect(allow).to_be_visible()
            widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            box = await allow.bounding_box()
            await page.screenshot(path=tmp_path / "phone.png")
            await allow.tap()
            await expect(page.get_by_role("status")).to_contain_text("Delivered")
            await waiting.ends()

    assert widths[0] <= widths[1] == 360
    assert box is not None
    assert box["height"] >= 40
    assert len(ledger.runs) == 1


async def test_without_scripts_everything_works_by_the_keyboard(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person(java_script_enabled=False) as page:
            await page.get_by_label("Reason").focus()
            await page.keyboard.type("fine")
            await page.keyboard.press("Tab")
            await expect(page.get_by_role("button", name="Allow")).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("status")).to_contain_text("Allowed. Delivered")
            outcome = await waiting.ends()
            await page.get_by_role("button", name="Sign out").click()
            await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    assert "Approved by Ana: fine" in outcome.text


async def test_many_questions_are_found_by_text_person_and_page(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_SIZE", 3)
    app = gated_app(Ledger().edit, approvals(lambda _: True, ask=lambda call: ask_of(call.arguments["path"])))
    async with stage(server, app, tmp_path) as on:
        for number in range(7):
            await start_gated(on, "edit", path=f"file-{number}")
        await eventually(on.harness.questions, lambda found: sum("file-" in one.question for one in found) >= 7)
        async with desk(on, chromium) as inbox, inbox.person() as page:
            cards = page.get_by_role("article")
            await expect(page.get_by_role("heading", name="7 questions wait")).to_be_visible()
            await expect(page.get_by_text("page 1 of 3, 7 in all")).to_be_visible()
            await page.get_by_role("link", name="Later").click()
            await expect(page.get_by_text("page 2 of 3")).to_be_visible()
            await expect(cards).to_have_count(3)
            await page.get_by_role("searchbox").fill("file-5")
            await page.get_by_role("button", name="Filter").click()
            await expect(cards).to_have_count(1)
            await page.get_by_role("link", name="Clear").click()
            await page.get_by_label("For whom").select_option("odd")
            await page.get_by_role("button", name="Filter").click()
            await expect(page.get_by_text("3 questions fit").or_(cards.first)).to_be_visible()
            await expect(cards).to_have_count(3)


def ask_of(path: str) -> Ask:
    return Ask(text=f"Write {path}?", for_whom="odd" if int(path[-1]) % 2 else "even")


async def test_what_asks_nobody_is_listed_on_demand_and_offers_no_answer(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("hook")], until=timedelta(hours=1)))
    async with stage(server, gated_app(waits.tool), tmp_path) as on:
        waiting = await start_gated(on, "waits")
        await eventually(waiting.view, lambda view: view.state == "sleeping")
        async with desk(on, chromium) as inbox, inbox.person() as page:
            await expect(page.get_by_text("No agent asks anything")).to_be_visible()
            await page.get_by_role("link", name="All 1 parked").click()
            await expect(page.get_by_role("article")).to_contain_text("waits for test.answer")
            await expect(page.get_by_role("article").get_by_role("button")).to_have_count(0)


async def test_a_page_of_somebody_else_cannot_answer_in_a_persons_browser(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person() as page:
            form = await page.locator("form.decide").evaluate("form => form.outerHTML")
            stolen = form.replace('action="/inbox/answer"', f'action="{inbox.url}/inbox/answer"')
            await page.goto("about:blank")
            await page.set_content(stolen)
            await page.get_by_role("button", name="Allow").click()
            await expect(page.get_by_text("This did not come from a page of this inbox")).to_be_visible()
        assert (await waiting.view()).state == "gated"

    assert ledger.runs == []
