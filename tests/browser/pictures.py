"""The pictures in docs/pictures: `python -m tests.browser.pictures` takes them anew, in the browser of the tests."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Literal

from playwright.async_api import Page, async_playwright
from pydantic import BaseModel, Field

from signals import Ask, Signal, Sleep
from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.testing import ScriptedModel, say
from tarry.tools import tool
from tests.browser.conftest import CHROMIUM, LAUNCH
from tests.support.gating import start_gated
from tests.support.inboxes import desk
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


class Window(BaseModel):
    """When the database may stand still."""

    minutes: int = Field(description="How long it may take at most", ge=1, le=240)
    risk: Literal["low", "medium", "high"]
    note: str | None = None


WINDOW = Signal("ops.window", 1, Window, for_people=True)


@tool
def shell(command: str) -> str:
    """Run a command."""
    return "done"


@tool
def refund(order: str, amount: float, message: str) -> str:
    """Give money back."""
    return "refunded"


@tool(replay="safe")
async def migrate(database: str, api: ToolApi) -> str | Sleep:
    """Move a database."""
    if isinstance(await api.read_signal(WINDOW, "window"), Received):
        return "migrated"
    ask = Ask(text="When may the orders database stand still for the migration?", for_whom="operations")
    return Sleep(signals=[WINDOW.key("window")], until=timedelta(hours=8), ask=ask)


MESSAGE = "Dear Ms Okafor,\n\nthe parcel was lost on its way. You have the money back by Thursday.\n\nYour shop"


def picture_app() -> App:
    """An application that asks people for all sorts of things."""
    tools = Extension("work", [shell, refund, migrate], [WINDOW])
    asks = approvals(
        lambda call: call.tool == "shell",
        deadline=timedelta(minutes=40),
        ask=lambda call: Ask(text="Clean the build folder of the release branch?", for_whom="release"),
    )
    money = approvals(
        lambda call: call.tool == "refund",
        name="money",
        ask=lambda call: Ask(text="Refund order 20-1881?", for_whom="support"),
    )
    return App(model=ScriptedModel([say("unused")]), extensions=[tools, asks, money])


async def _ask_all(on: Stage) -> None:
    await start_gated(on, "shell", command="rm -rf build/ && make release VERSION=2.4.0")
    await start_gated(on, "refund", order="20-1881", amount=59.9, message=MESSAGE)
    await start_gated(on, "migrate", database="orders")
    await eventually(on.harness.questions, lambda found: len(found) == 3)


async def _save(page: Page, name: str) -> None:
    await page.evaluate("document.activeElement.blur()")
    await page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


async def main() -> None:
    """Take all of them."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            EmbeddedServer() as server,
            stage(server, picture_app(), Path(folder)) as on,
            async_playwright() as driver,
        ):
            chromium = await driver.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
            await _ask_all(on)
            async with desk(on, chromium) as inbox:
                async with inbox.person("Ana", viewport={"width": 900, "height": 700}) as page:
                    await _save(page, "inbox")
                    await page.get_by_role("link", name="Answer").click()
                    await page.get_by_label("How long").or_(page.get_by_label("Minutes")).fill("400")
                    await page.get_by_label("Risk").select_option(label="low")
                    await page.get_by_label("Note").fill("after the nightly backup")
                    await page.get_by_role("button", name="Answer").click()
                    await page.get_by_role("status").wait_for()
                    await _save(page, "inbox-form")
                phone = {"width": 390, "height": 844}
                async with inbox.person(
                    "Ben", viewport=phone, device_scale_factor=2, is_mobile=True, color_scheme="dark"
                ) as page:
                    await page.screenshot(path=PICTURES / "inbox-phone.png")
                    release = page.get_by_role("article").filter(has_text="release branch")
                    await release.get_by_label("Reason").fill("the branch is frozen until Monday")
                    await release.get_by_role("button", name="Deny").click()
                    await page.get_by_role("status").wait_for()
                async with inbox.person("Ana", viewport={"width": 900, "height": 700}) as page:
                    money = page.get_by_role("article").filter(has_text="20-1881")
                    await money.get_by_role("button", name="Allow").click()
                    await page.get_by_role("status").wait_for()
                    await page.get_by_role("link", name="History").click()
                    await page.get_by_text("did not run").wait_for()
                    await _save(page, "inbox-history")
            await chromium.close()


if __name__ == "__main__":
    asyncio.run(main())
