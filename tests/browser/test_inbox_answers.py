"""People who answer agents at the inbox, in a real browser (spec §23)."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect

from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import desk
from tests.support.stage import stage


async def test_a_call_runs_with_what_the_page_showed_once_a_person_allows_it(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person("Ana") as page:
            card = page.get_by_role("article")
            await expect(card).to_contain_text("a.txt")
            await card.get_by_label("Reason").fill("it can be built again")
            await card.get_by_role("button", name="Allow").click()
            await expect(page.get_by_role("status")).to_contain_text("Delivered")
            outcome = await waiting.ends()

    assert ledger.runs == [{"path": "a.txt", "mode": "w"}]
    assert "Approved by Ana: it can be built again" in outcome.text


async def test_a_denial_reaches_the_model_with_its_reason(
    server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        async with desk(on, chromium) as inbox, inbox.person("Ben") as page:
            await page.get_by_label("Reason").fill("use the staging host")
            await page.get_by_role("button", name="Deny").click()
            await expect(page.get_by_role("status")).to_contain_text("Delivered")
            outcome = await waiting.ends()

    assert (outcome.code, ledger.runs) == ("denied", [])
    assert "denied by Ben and not run. use the staging host" in outcome.text
