"""A run is one trace (spec §24): what spans there are, whose children, and what is never in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.testing import Stage
from tests.support.collector import Collector, collecting
from tests.support.seen_app import NAME, SECRET, WORDS, Words
from tests.support.waiting import eventually

ASKED = """\
conversation
  invoke_agent
    chat 1
    execute_tool ask_ana
      run_tool ask_ana
      wait
      run_tool ask_ana
    chat 1"""


@asynccontextmanager
async def traced(server: EmbeddedServer, folder: Path) -> AsyncIterator[tuple[Stage, Collector]]:
    """A stage whose workers send their spans to a collector."""
    with collecting() as collector:
        async with Stage(NAME, server=server, folder=folder) as stage:
            yield stage, collector


async def answered(stage: Stage, conversation_id: str, text: str) -> str:
    return str((await (await stage.harness.conversation(conversation_id).submit(text)).wait()).answer_text)


async def whole(collector: Collector, runs: int = 1) -> list[str]:
    """The traces, once the roots of so many runs have come."""

    async def roots() -> int:
        return len(collector.of("conversation"))

    await eventually(roots, lambda found: found >= runs)
    return collector.trees()


async def test_a_run_is_one_trace_from_its_conversation_to_each_request_and_call(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        await stage.start_worker(**collector.environment)
        submission = await stage.harness.conversation("asked").submit(f"ask {SECRET}")
        await stage.harness.signal(await stage.parked("asked"), WORDS, "answer", Words(text="Blue"))
        await submission.wait()
        trees = await whole(collector)

    assert trees == [ASKED]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert SECRET not in repr(collector.bodies)
