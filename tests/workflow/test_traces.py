"""A run is one trace (spec §24): what spans there are, whose children, and what is never in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Header, Payload, WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client

from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tarry.seeing.headers import HEADER
from tarry.testing import Stage
from tests.support.collector import Collector, collecting
from tests.support.done_over import done_over
from tests.support.seen_app import HOLD, HOOKED, NAME, SECRET, WORDS, Words
from tests.support.trees_of_spans import ASKED, DELEGATED, HOOKS, NESTED
from tests.support.waiting import eventually

CONTENT = {
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
}
NO_CACHE = {"TARRY_MAX_CACHED_WORKFLOWS": "0"}
CACHES = pytest.mark.parametrize("cache", [{}, NO_CACHE], ids=["cached", "replayed at every task"])


@asynccontextmanager
async def traced(server: EmbeddedServer, folder: Path, app: str = NAME) -> AsyncIterator[tuple[Stage, Collector]]:
    """A stage, and a collector for the spans of its workers."""
    with collecting() as collector:
        async with Stage(app, server=server, folder=folder) as stage:
            yield stage, collector


async def answered(stage: Stage, conversation_id: str, text: str) -> str:
    """What a run answers, and its end."""
    return str((await (await stage.harness.conversation(conversation_id).submit(text)).wait()).answer_text)


async def whole(collector: Collector, runs: int = 1) -> list[str]:
    """The traces, once the spans of so many conversations have come."""

    async def roots() -> int:
        return len(collector.of("conversation"))

    await eventually(roots, lambda found: found >= runs)
    return collector.trees()


async def sent_once(stage: Stage, collector: Collector) -> bool:
    """Whether no span came twice, but where a workflow task was done over: a slow machine has some."""
    return not collector.again or bool(await done_over(stage))


def traces_of(collector: Collector) -> int:
    """Of how many traces the spans are."""
    return len({span.trace_id for span in collector.spans})


@CACHES
async def test_a_run_is_one_trace_from_its_conversation_to_each_request_call_and_wait(
    server: EmbeddedServer, tmp_path: Path, cache: dict[str, str]
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        await stage.start_worker(**collector.environment, **cache)
        submission = await stage.harness.conversation(tmp_path.name).submit(f"ask {SECRET}")
        await stage.harness.signal(await stage.parked(tmp_path.name), WORDS, "answer", Words(text="Blue"))
        run = (await submission.wait()).generation_id
        assert await whole(collector) == [ASKED]
        assert await sent_once(stage, collector)

    assert (len(collector.spans), traces_of(collector)) == (8, 1)
    [root], [agent], [call], [wait] = map(
        collector.of, ("conversation", "invoke_agent", "execute_tool ask_ana", "wait")
    )
    assert (root.process["service.name"], root.process["tarry.process"]) == ("tarry", "worker")
    assert root.attributes == {
        "gen_ai.conversation.id": tmp_path.name,
        "tarry.task_id": tmp_path.name,
        "tarry.run": 1,
        "tarry.outcome": "done",
    }
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert agent.attributes["tarry.task_id"] == run
    assert call.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": tmp_path.name,
        "gen_ai.tool.name": "ask_ana",
        "gen_ai.tool.call.id": "call_0_0",
        "tarry.task_id": f"{run}/t1.0",
        "tarry.replay": "safe",
        "tarry.continued": False,
        "tarry.outcome": "ok",
    }
    assert (wait.attributes["tarry.waits"], wait.attributes["tarry.wake"]) == ("sleeping", "signal")
    chats = collector.of("chat 1")
    assert [chat.attributes["gen_ai.request.model"] for chat in chats] == ["1", "1"]
    assert [chat.attributes["gen_ai.provider.name"] for chat in chats] == ["scripted", "scripted"]
    assert (
        sum(chat.attributes["gen_ai.usage.output_tokens"] for chat in chats)
        == agent.attributes["gen_ai.usage.output_tokens"]
    )
    began = [span.began for span in (root, agent, call, wait)]
    assert began == sorted(began)
    assert root.ended >= agent.ended >= call.ended >= wait.ended


@CACHES
async def test_nested_calls_and_runs_of_subagents_are_below_the_call_that_started_them(
    server: EmbeddedServer, tmp_path: Path, cache: dict[str, str]
) -> None:
    hold = tmp_path / "hold"
    async with traced(server, tmp_path) as (stage, collector):
        await stage.start_worker(**collector.environment, **cache, **{HOLD: str(hold)})
        await answered(stage, f"{tmp_path.name}-1", "nest")
        assert await whole(collector) == [NESTED]
        hold.touch()  # or on a slow machine the subagent would be done before anybody waits for it
        submission = await stage.harness.conversation(f"{tmp_path.name}-2").submit("delegate")
        await stage.parked(f"{tmp_path.name}-2")
        hold.unlink()
        await submission.wait()
        assert await whole(collector, 3) == [NESTED, DELEGATED]

    assert traces_of(collector) == 2


async def test_hooks_are_in_the_trace_and_a_compaction_by_hand_is_one_of_its_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with traced(server, tmp_path, HOOKED) as (stage, collector):
        await stage.start_worker(**collector.environment)
        await answered(stage, "hooked", "inner")
        assert await whole(collector) == [HOOKS]
        collector.spans.clear()
        await (await stage.harness.conversation("hooked").compact()).wait()

        async def compacted() -> int:
            return len(collector.of("compact"))

        await eventually(compacted)

    assert collector.trees() == ["compact"]


async def test_a_call_that_other_workers_wake_stays_in_its_trace(server: EmbeddedServer, tmp_path: Path) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        first = await stage.start_worker(**collector.environment)
        submission = await stage.harness.conversation("parked").submit("ask")
        task_id = await stage.parked("parked")
        await first.stop()
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Blue"))
        await stage.start_worker(**collector.environment)
        await submission.wait()
        assert await whole(collector) == [ASKED]
        assert await sent_once(stage, collector)

    assert (len(collector.spans), traces_of(collector)) == (8, 1)


@pytest.mark.parametrize(("tool", "outcome"), [("fragile", "ok"), ("brittle", "interrupted")])
async def test_a_killed_worker_leaves_the_trace_whole_but_for_the_run_that_died(
    server: EmbeddedServer, tmp_path: Path, tool: str, outcome: str
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        first = await stage.start_worker(**collector.environment)
        submission = await stage.harness.conversation(tmp_path.name).submit(tool)
        await first.wait()
        await stage.start_worker(**collector.environment)
        await submission.wait()
        await whole(collector)

    [tree] = collector.trees()
    # Whether the killed one had sent the first request is a matter of milliseconds.
    lines = [line for line in tree.splitlines() if line != "    chat 1"]
    runs = [f"      run_tool {tool}"] if outcome == "ok" else []
    assert lines == ["conversation", "  invoke_agent", f"    execute_tool {tool}", *runs]
    [call] = collector.of(f"execute_tool {tool}")
    assert (call.attributes["tarry.outcome"], call.status) == (outcome, "unset" if outcome == "ok" else "error")
    assert [run.attributes["tarry.attempt"] for run in collector.of(f"run_tool {tool}")] == (
        [2] if outcome == "ok" else []
    )


@pytest.mark.parametrize("first_traces", [True, False], ids=["traced first", "untraced first"])
async def test_workers_that_trace_and_workers_that_do_not_may_be_mixed(
    server: EmbeddedServer, tmp_path: Path, first_traces: bool
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        environments = [collector.environment, {}] if first_traces else [{}, collector.environment]
        first = await stage.start_worker(**environments[0])
        submission = await stage.harness.conversation(tmp_path.name).submit("ask")
        task_id = await stage.parked(tmp_path.name)
        await first.stop()
        await stage.start_worker(**environments[1])
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Blue"))
        assert (await submission.wait()).status == "done"
        if not first_traces:
            await whole(collector)

    told = {line.strip() for tree in collector.trees() for line in tree.splitlines()}
    begun = {"chat 1", "run_tool ask_ana"}
    assert told == (begun if first_traces else begun | {"conversation", "invoke_agent", "execute_tool ask_ana", "wait"})


async def test_spans_hold_no_content_unless_asked_for_and_then_what_the_redactor_leaves(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        for environment in ({}, {"TARRY_TRACE_CONTENT": "true"}):
            worker = await stage.start_worker(**collector.environment, **environment)
            for word in ("nest", "broken", "rage"):
                await answered(stage, f"{word}-{len(environment)}", f"{word} {SECRET}")
            await whole(collector, 3)
            await worker.stop()
            assert SECRET.encode() not in b"".join(collector.bodies)
            told, collector.spans = collector.spans, []
            assert environment or CONTENT.isdisjoint(name for span in told for name in span.attributes)

    [outer] = [span for span in told if span.name == "run_tool outer"]
    assert outer.attributes["gen_ai.tool.call.arguments"] == '{"word": "[hidden]"}'
    assert outer.attributes["gen_ai.tool.call.result"] == "[hidden] [hidden]"
    chats = [span.attributes for span in told if span.name == "chat 1"]
    assert ["[hidden]" in chat["gen_ai.input.messages"] for chat in chats] == [True] * len(chats)


async def test_a_header_of_what_workflows_start_carries_the_trace_and_nothing_else(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        await stage.start_worker(**collector.environment)
        submission = await stage.harness.conversation("header").submit("nest")
        run = (await submission.wait()).generation_id
        await whole(collector)
        carried = [header async for header in _headers(stage.harness.client, run)]

    assert {name for header in carried for name in header} == {"_tracer-data"}
    trace = collector.spans[0].trace_id
    assert all(header["_tracer-data"].startswith(f'{{"traceparent":"00-{trace}-') for header in carried)


HOSTILE = (b"5", b"no json", b'["traceparent"]', b'{"traceparent": 7}', b'{"traceparent": "00-x-y-01", "baggage": "%"}')


async def test_a_header_that_any_shell_writes_stops_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with traced(server, tmp_path) as (stage, collector):
        worker = await stage.start_worker(**collector.environment, **NO_CACHE)
        submission = await stage.harness.conversation("hostile").submit("ask")
        task_id = await stage.parked("hostile")
        for data in HOSTILE:
            payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
            await stage.harness.client.workflow_service.signal_workflow_execution(
                SignalWorkflowExecutionRequest(
                    namespace="default",
                    workflow_execution=WorkflowExecution(workflow_id=task_id),
                    signal_name="anything",
                    header=Header(fields={HEADER: payload}),
                )
            )
        await stage.harness.signal(task_id, WORDS, "answer", Words(text="Blue"))
        assert (await submission.wait()).status == "done"
        assert await whole(collector) == [ASKED]

    assert "Failed activation" not in worker.log.read_text()


async def _headers(client: Client, workflow_id: str) -> AsyncIterator[dict[str, str]]:
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        if fields := _header(event):
            yield fields


def _header(event: HistoryEvent) -> dict[str, str]:
    attributes = getattr(event, event.WhichOneof("attributes") or "")
    fields = attributes.header.fields if "header" in attributes.DESCRIPTOR.fields_by_name else {}
    return {name: payload.data.decode() for name, payload in fields.items()}


async def test_a_collector_that_is_away_holds_up_neither_a_run_nor_the_end_of_a_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
        assert await answered(stage, "away", "nest")
        assert await _ended(worker) == 0


async def _ended(worker: Child) -> int:
    await worker.stop()
    return await worker.wait()


async def test_a_worker_says_what_to_change_when_its_collector_wants_another_protocol(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        with pytest.raises(Exception, match="worker: OTEL_EXPORTER_OTLP_PROTOCOL='grpc' is refused: spans are sent by"):
            await stage.start_worker(
                OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"
            )
