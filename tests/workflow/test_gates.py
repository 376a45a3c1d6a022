"""Gates: what hooks may say before a call's intent, and what becomes of every answer (spec §5.1, §5.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from signals.parking import Sleep, Wait
from tarry.api import Expired, Received
from tarry.embedded import EmbeddedServer
from tarry.hooks import Block, Gate, HookApi, HookCall, Replace
from tests.support.gating import Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, HOUR, YES, wedges
from tests.support.stage import stage

KEY = ANSWER.key("go")


def raises(call: HookCall, api: HookApi) -> Gate:
    raise ValueError("no \ud800 idea")


def exits(call: HookCall, api: HookApi) -> Gate:
    raise SystemExit(3)


def hangs(call: HookCall, api: HookApi) -> Gate:
    threading.Event().wait()
    return None


async def never_settles(call: HookCall, api: HookApi) -> Gate:
    await __import__("asyncio").get_running_loop().create_future()
    return None


def deep(call: HookCall, api: HookApi) -> Gate:
    value: Any = None
    for _ in range(150):
        value = [value]
    api.memo_sync("deep", value)
    return None


def answers(answer: Any) -> Callable[[HookCall, HookApi], Any]:
    return lambda call, api: answer


def remembers(key: Any, value: Any) -> Callable[[HookCall, HookApi], Gate]:
    def hook(call: HookCall, api: HookApi) -> Gate:
        api.memo_sync(key, value)
        return None

    return hook


BLOCKING: dict[str, tuple[Any, str]] = {
    "raises": (raises, "hook gate failed with ValueError: no \ufffd idea"),
    "exits": (exits, "hook gate failed with SystemExit: 3"),
    "blocks its thread": (hangs, "hook gate gave no answer in time"),
    "never settles": (never_settles, "hook gate gave no answer in time"),
    "answers nonsense": (answers(True), "hook gate returned a bool"),
    "waits for a task": (answers(Wait(["x"])), "hook gate returned a Wait"),
    "no arguments": (answers(Replace([1])), "hook gate gave arguments that are no object"),  # type: ignore[arg-type]
    "unencodable arguments": (answers(Replace({"path": object()})), "hook gate gave arguments that are no JSON"),
    "deep arguments": (answers(Replace({"path": [[[]]] * 2, "x": {}})), "path"),
    "huge arguments": (answers(Replace({"path": "x" * 300_000})), "hook gate gave arguments of 300011 bytes"),
    "memo of nothing": (remembers("", 1), "a key has 1 to 8192 bytes"),
    "memo without Unicode": (remembers("\ud800", 1), "a key must be valid Unicode"),
    "memo too deep": (deep, "JSON data is nested deeper than 100 levels"),
    "memo too large": (remembers("m", "x" * 600_000), "hook gate failed with TaskFull"),
    "block of nothing": (answers(Block(None, code="why", by=3)), "None"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BLOCKING)
async def test_a_gate_that_fails_blocks_the_call_with_its_text(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    hook, text = BLOCKING[name]
    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, gate(hook)), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        outcome = await call.ends()
        history = await call.history()

    expected = "invalid_arguments" if name == "deep arguments" else "blocked"
    assert (outcome.code, outcome.is_error) == (expected, True)
    assert text in outcome.text
    assert ledger.runs == []
    assert wedges(history) == []
