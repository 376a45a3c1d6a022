from __future__ import annotations

import asyncio

import pytest
from temporalio.client import Client

from tarry.api import ToolApi
from tarry.connect import INLINE_BYTES, data_converter
from tarry.core.protocol import ToolOutcome
from tarry.embedded import EmbeddedServer
from tarry.tools import ToolResult, tool
from tests.support.tool_bench import Bench, broken


async def test_result_of_a_sync_and_an_async_tool_reaches_the_model(bench: Bench) -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool
    async def greet(name: str, api: ToolApi) -> ToolResult:
        api.diagnostic("no greeting is on file", severity="warn")
        return ToolResult({"text": f"hello {name}"}, details={"id": api.task_id})

    sum_ = await bench.run(add, arguments={"a": 1})
    greeting = await bench.run(greet, arguments={"name": "Ana"})

    assert sum_ == ToolOutcome(text="3")
    assert greeting.text.startswith('{"text": "hello Ana"}')
    assert greeting.facts.diagnostics == ("[warn] no greeting is on file",)
    assert (greeting.is_error, greeting.facts.details) == (False, {"id": "no-such-workflow"})


async def test_published_output_is_the_content_of_a_tool_that_returns_nothing(bench: Bench) -> None:
    @tool
    def build(api: ToolApi) -> None:
        api.output("compiling\n")
        api.output("linking\n")

    assert await bench.run(build) == ToolOutcome(text="compiling\nlinking\n")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no such page"), "ValueError: no such page"),
        (RuntimeError(), "RuntimeError, without a message"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError, without a message"),
        (KeyboardInterrupt(), "KeyboardInterrupt, without a message"),
    ],
)
async def test_raising_tells_the_model_type_and_text(bench: Bench, error: BaseException, told: str) -> None:
    @tool
    def fail(api: ToolApi) -> None:
        api.output("half done\n")
        raise error

    outcome = await bench.run(fail)

    assert (outcome.code, outcome.is_error) == ("tool_error", True)
    assert outcome.text.startswith("half done\n")
    assert told in outcome.text


async def test_result_that_cannot_be_encoded_runs_the_tool_once(bench: Bench) -> None:
    runs: list[int] = []

    @tool(replay="safe")
    def fetch() -> object:
        runs.append(1)
        return object()

    outcome = await bench.run(fetch)

    assert (outcome.code, outcome.is_error, runs) == ("unencodable_result", True, [1])


async def test_large_result_is_bounded_and_kept_whole_in_the_store(bench: Bench) -> None:
    text = "line of a log\n" * 220_000

    @tool
    def read() -> str:
        return text

    outcome = await bench.run(read)

    assert len(outcome.text) < 52 * 1024
    assert outcome.facts.full_output in outcome.text
    assert await bench.blobs.get(outcome.facts.full_output, str) == text


async def test_tool_that_declares_how_much_the_model_reads_has_all_its_lines_up_to_that(bench: Bench) -> None:
    @tool(result_bytes=60_000)
    def read(lines: int) -> str:
        return "line of a log\n" * lines

    whole = await bench.run(read, arguments={"lines": 4_000})
    cut = await bench.run(read, arguments={"lines": 5_000})

    assert whole.text == "line of a log\n" * 4_000
    assert cut.text.startswith("line of a log\n" * 4_285)
    assert "line of a log\n" * 4_286 not in cut.text


@pytest.mark.parametrize("line", ["log" * 30, "あ" * 30])
async def test_result_too_large_for_a_broken_store_still_reaches_the_model(
    bench: Bench, server: EmbeddedServer, line: str
) -> None:
    bench.store = broken(bench.store)
    bench.client = await Client.connect(server.address, data_converter=data_converter(str(bench.store)))

    @tool
    def read() -> ToolResult:
        return ToolResult("first\n" + f"{line}\n" * 400 + "last\n", is_error=True)

    outcome = await bench.run(read)

    assert len(outcome.model_dump_json().encode()) < INLINE_BYTES
    assert outcome.text.startswith("first\n")
    assert "\nlast\n" in outcome.text
    assert "The store could not be written" in outcome.facts.diagnostics[0]
    assert outcome.is_error


async def test_text_that_cannot_be_stored_is_cut_with_a_remark(bench: Bench) -> None:
    bench.store = broken(bench.store)

    @tool
    def read() -> str:
        return "line of a log\n" * 220_000

    outcome = await bench.run(read)

    assert (outcome.is_error, outcome.facts.full_output) == (False, "")
    assert any("could not be stored" in line for line in outcome.facts.diagnostics)
