"""What the end of a tool becomes for the model, for the record and in history (spec §4.5, §4.10, §4.11)."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from tarry.api import ToolApi
from tarry.connect import INLINE_BYTES
from tarry.core.text import MAX_MODEL_BYTES, MAX_MODEL_LINES
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import ScriptedModel, Step, call, calls, raw_call, say
from tarry.tools import Tool, ToolResult, tool
from tests.support.answers import ask
from tests.support.payloads import histories_of, payloads_of
from tests.support.stage import app_of, stage

REMARKS = 1024
"""More than the harness adds to a bounded text."""


class Reading(BaseModel):
    place: str
    degrees: float


def calling_each(*tools: Tool, then: str = "done") -> list[Any]:
    """A script that calls each tool once, all in one response."""
    return [calls(*(call(used.name) for used in tools)), say(then)]


def block(*lines: str) -> str:
    """What the harness adds to a result."""
    return "\n".join(["<harness>", *lines, "</harness>"])


async def test_whatever_a_tool_returns_reaches_the_model_as_text(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    def text() -> str:
        return "plain"

    @tool
    async def nothing() -> None:
        await asyncio.sleep(0)

    @tool
    def published(api: ToolApi) -> None:
        api.output("one half")
        api.output(", the other")

    @tool
    async def model() -> Reading:
        return Reading(place="roof", degrees=21.5)

    @tool
    def several() -> list[Any]:
        return [1, "two", None]

    @tool
    async def detailed() -> ToolResult:
        return ToolResult("short", details={"rows": 7, "worst": math.inf})

    @tool
    def refusing() -> ToolResult:
        return ToolResult({"reason": "no such page"}, is_error=True)

    @tool
    async def remarking(api: ToolApi) -> str:
        api.diagnostic("the index is a day old", severity="warn", code="stale")
        return "found"

    tools = (text, nothing, published, model, several, detailed, refusing, remarking)
    requests: list[ModelRequest] = []
    app = app_of(ScriptedModel(calling_each(*tools), on_request=requests.append), *tools)
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "done"
    assert answer.texts == [
        "plain",
        block("[info] There was no output."),
        "one half, the other",
        '{"place": "roof", "degrees": 21.5}',
        '[1, "two", null]',
        "short",
        '{"reason": "no such page"}',
        "found\n" + block("[warn] the index is a day old (stale)"),
    ]
    assert [result.is_error for result in answer.results] == [False] * 6 + [True, False]
    assert [facts.details for facts in answer.facts] == [None] * 5 + [{"rows": 7, "worst": None}, None, None]
    assert answer.codes == [""] * 8
    assert requests[1].messages[-8:] == tuple(answer.results)


async def test_each_of_several_calls_gets_its_own_result_whatever_becomes_of_the_others(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool
    def works() -> str:
        return "worked"

    @tool
    def raises() -> None:
        raise LookupError("no row 7")

    @tool
    async def raises_silently() -> None:
        raise RuntimeError

    @tool(timeout=timedelta(seconds=1))
    async def takes_too_long(api: ToolApi) -> None:
        api.output("begun")
        await asyncio.Event().wait()

    @tool
    def exits() -> None:
        raise SystemExit(3)

    tools = (works, raises, raises_silently, takes_too_long, exits)
    async with stage(server, app_of(ScriptedModel(calling_each(*tools)), *tools), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "done"
    assert [(result.call_id, result.name) for result in answer.results] == [
        (f"call_0_{place}", used.name) for place, used in enumerate(tools)
    ]
    assert answer.texts == [
        "worked",
        block("[error] Tool raises failed with LookupError: no row 7"),
        block("[error] Tool raises_silently failed with RuntimeError, without a message"),
        "begun\n"
        + block("[error] Tool takes_too_long timed out after 1 s and was stopped; its effects until then stay."),
        block("[error] Tool exits failed with SystemExit: 3"),
    ]
    assert answer.codes == ["", "tool_error", "tool_error", "timeout", "tool_error"]
    assert answer.facts[3].duration_ms >= 1000


async def test_result_larger_than_history_takes_is_bounded_and_kept_whole_and_its_tool_runs_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger: Counter[str] = Counter()

    @tool
    def read(size: int, name: str) -> str:
        ledger[name] += 1
        return "".join(f"{name} {number:09d} of many lines\n" for number in range(size // 30))

    sizes = {"three_mb": 3_000_000, "two_mb": 1_900_000} | {f"page_{n}": 30_000 for n in range(20)}
    script: list[Step] = [calls(*(call("read", size=size, name=name) for name, size in sizes.items())), say("read")]
    async with stage(server, app_of(ScriptedModel(script), read), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        blobs = BlobStore(on.client.data_converter)
        whole = [await blobs.get(facts.full_output, str) for facts in answer.facts if facts.full_output]
        histories = await histories_of(on.client, conversation.id)

    assert (answer.end, ledger) == ("done", Counter(sizes.keys()))
    assert [text.splitlines()[-1] for text in whole] == [
        "three_mb 000099999 of many lines",
        "two_mb 000063332 of many lines",
    ]
    for text, facts in zip(answer.texts[:2], answer.facts, strict=False):
        assert len(text.encode()) <= MAX_MODEL_BYTES + REMARKS
        assert len(text.splitlines()) <= MAX_MODEL_LINES + 3
        assert f"the whole text is kept as {facts.full_output}" in text
    assert [text.splitlines()[-1] for text in answer.texts[2:]] == [
        f"page_{n} 000000999 of many lines" for n in range(20)
    ]
    assert max(len(payload.data) for payload in payloads_of(histories)) < INLINE_BYTES
    assert max(sum(event.ByteSize() for event in history.events) for history in histories) < 1024 * 1024


async def test_result_that_cannot_be_encoded_is_an_error_and_its_tool_runs_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger: Counter[str] = Counter()

    @tool
    def handle() -> object:
        ledger["handle"] += 1
        return object()

    @tool(replay="safe")
    async def cycle() -> list[Any]:
        ledger["cycle"] += 1
        ring: list[Any] = []
        ring.append(ring)
        return ring

    @tool(replay="safe")
    def stream() -> Any:
        ledger["stream"] += 1
        return (number for number in range(3))

    tools = (handle, cycle, stream)
    async with stage(server, app_of(ScriptedModel(calling_each(*tools)), *tools), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.codes) == ("done", ["unencodable_result"] * 3)
    assert ledger == {"handle": 1, "cycle": 1, "stream": 1}
    for text in answer.texts:
        assert "ran to its end, but its result cannot be encoded: " in text


async def test_numbers_that_are_not_json_become_null_everywhere(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    async def measure(api: ToolApi) -> ToolResult:
        kept = await api.memo("reading", {"low": -math.inf})
        return ToolResult({"score": math.nan, "hi": math.inf, "kept": kept}, details=[math.nan, 1.5])

    app = app_of(ScriptedModel([call("measure"), say("measured")]), measure)
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        stored = payloads_of(await histories_of(on.client, conversation.id))

    assert answer.texts == ['{"score": null, "hi": null, "kept": {"low": null}}']
    assert answer.facts[0].details == [None, 1.5]
    for payload in stored:
        if payload.metadata["encoding"] == b"json/plain":
            from_json(payload.data, allow_inf_nan=False)


async def test_half_a_character_is_replaced_and_the_conversation_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard: list[str] = []

    @tool
    def echo(text: str) -> str:
        heard.append(text)
        return "a\ud800b"

    @tool
    def fails() -> None:
        raise ValueError("half a \udc00 character")

    @tool
    async def publishes(api: ToolApi) -> None:
        api.output("\ud83c\udf78 and \ud83c")
        api.diagnostic("odd: \udfff")

    requests: list[ModelRequest] = []
    script: list[Step] = [
        calls(
            raw_call("echo", r'{"text": "\ud83c\udf78"}'),
            raw_call("echo", r'{"text": "\ud83c"}'),
            raw_call("echo", '{"text": "\udf78"}'),
            call("fails"),
            call("publishes"),
            text="model \ud800",
            reasoning="\udfff",
        ),
        say("first"),
        say("second"),
    ]
    app = app_of(ScriptedModel(script, on_request=requests.append), echo, fails, publishes)
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await ask(conversation, "user \ud800")
        second = await ask(conversation, "and \U0001f378")

    assert (first.end, second.end, second.text) == ("done", "done", "second")
    # The three calls run in parallel, so they may be heard in any order.
    assert sorted(heard) == ["\ufffd", "\ufffd", "\U0001f378"]
    assert first.texts == [
        *["a\ufffdb"] * 3,
        block("[error] Tool fails failed with ValueError: half a \ufffd character"),
        "\U0001f378 and \ufffd\n" + block("[info] odd: \ufffd"),
    ]
    sent = requests[-1].messages
    assert [sent[0].text, sent[1].text, sent[-1].text] == ["user \ufffd", "model \ufffd", "and \U0001f378"]
    assert json.loads(sent[1].calls[0].arguments) == {"text": "\U0001f378"}  # type: ignore[union-attr]
