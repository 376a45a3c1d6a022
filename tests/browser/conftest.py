"""A real browser: Debian's Chromium, driven by playwright. Where there is none these tests are skipped."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright, expect

CHROMIUM = shutil.which("chromium")
# Root may start none inside of its own sandbox, and a container has little shared memory.
LAUNCH = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """One browser for the session; each test opens contexts of its own in it, which share nothing."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    expect.set_options(timeout=60_000)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        yield browser
        await browser.close()
