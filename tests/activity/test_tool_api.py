from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tarry.api import StaleRun, TaskFull, ToolApi
from tarry.core.protocol import ToolOutcome
from tarry.tools import tool
from tests.support.tool_bench import STARTED, Bench


async def test_every_method_of_the_api_refuses_after_the_run(bench: Bench) -> None:
    kept: list[ToolApi] = []

    @tool
    def leak(api: ToolApi) -> str:
        kept.append(api)
        return "done"

    await bench.run(leak)
    [api] = kept

    calls: list[Callable[[], object]] = [
        api.now,
        lambda: api.output("late"),
        lambda: api.diagnostic("late"),
        lambda: api.memo_sync("key", 1),
    ]
    for call in calls:
        with pytest.raises(StaleRun):
            await asyncio.to_thread(call)
    with pytest.raises(StaleRun):
        await api.memo("key", 1)


async def test_time_of_a_tool_is_the_servers(bench: Bench) -> None:
    @tool
    def when(api: ToolApi) -> str:
        return api.now().isoformat()

    outcome = await bench.run(when)

    assert STARTED <= datetime.fromisoformat(outcome.text) < STARTED + timedelta(minutes=1)


async def test_ids_of_a_tool_are_its_calls(bench: Bench) -> None:
    @tool
    def ids(api: ToolApi) -> list[Any]:
        return [api.task_id, api.conversation_id, api.idempotency_key, api.attempt]

    outcome = await bench.run(ids, run=3)

    assert json.loads(outcome.text) == ["no-such-workflow", "conv-1", "key-1", 3]


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (object(), TypeError, "memo 'key' is not JSON data"),
        ("x" * 65 * 1024, TaskFull, "at most 65536 are stored"),
    ],
)
async def test_memo_that_cannot_be_stored_is_refused_before_it_is_sent(
    bench: Bench, value: Any, error: type[Exception], told: str
) -> None:
    @tool
    def remember(api: ToolApi) -> str:
        with pytest.raises(error, match=told):
            api.memo_sync("key", value)
        return "refused"

    assert await bench.run(remember) == ToolOutcome(text="refused")
