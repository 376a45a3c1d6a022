"""What a client meets: other stores, closed conversations, limits, and servers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from tarry import DurableTask, Start, embedded
from tarry.client import (
    Harness,
    InputTooLarge,
    NoSuchConversation,
    ServerUnavailable,
    Submission,
    SubmissionRefused,
)
from tarry.connect import INLINE_BYTES, data_converter
from tarry.core.inbox import MAX_CONTENT
from tarry.core.ledger import Ledger
from tarry.core.protocol import GENERATION, RETRY
from tarry.core.transcript import PageRef
from tarry.embedded import EmbeddedServer
from tarry.entries import EntryReader
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, say
from tarry.tools import tool
from tests.support.held import HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, idle_stage, stage

T = TypeVar("T")

LARGEST = ["x" * MAX_CONTENT, '"' * MAX_CONTENT, "あ" * (MAX_CONTENT // 3)]


def sizes(request: ModelRequest) -> Reply:
    """Answer an input by its length."""
    return say(str(len(request.messages[-1].text)))


async def elsewhere(on: Stage, store: Path) -> Harness:
    """A harness of another folder, where its own relative store leads to."""
    client = await Client.connect(
        on.client.service_client.config.target_host, data_converter=data_converter(str(store))
    )
    return Harness(client, on.settings)


async def answer_to(submission: Submission, on: Stage) -> str | None:
    """Read by a client that has the workers' store: a large input makes its run a page soon."""
    theirs = on.harness.conversation(submission.conversation_id).submission(submission.request_id)
    return (await theirs.wait()).answer_text


@pytest.mark.parametrize("content", LARGEST, ids=["plain", "escaped", "unicode"])
async def test_largest_input_of_a_client_with_another_store_is_answered_by_either_road(
    server: EmbeddedServer, tmp_path: Path, content: str
) -> None:
    app = app_of(ScriptedModel.for_each_input([sizes]))
    async with idle_stage(server, app, tmp_path / "workers") as on:
        conversation = (await elsewhere(on, tmp_path / "clients")).conversation()
        by_signal = await conversation.submit(content)
        assert by_signal.view is None
        async with on.worker():
            assert await answer_to(by_signal, on) == str(len(content))

            by_update = await conversation.submit(content)
            assert by_update.view is not None
            assert await answer_to(by_update, on) == str(len(content))
        assert not (tmp_path / "clients").exists()


async def test_input_that_is_large_as_json_is_refused_before_it_is_sent(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(ScriptedModel([])), tmp_path) as on:
        conversation = on.harness.conversation()

        with pytest.raises(InputTooLarge, match="bytes as JSON, 1310720 are allowed"):
            await conversation.submit("\x01" * (MAX_CONTENT // 2))

        with pytest.raises(NoSuchConversation):
            await conversation.view()


async def test_large_answer_of_a_repeated_request_is_read_from_the_store(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    long = "long " * INLINE_BYTES
    async with stage(server, app_of(ScriptedModel([say(long)])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("x", request_id="r1")).wait()

        repeated = await conversation.submit("x", request_id="r1")

        assert (await repeated.wait()).answer_text == long


async def test_waiting_needs_no_store_as_long_as_the_answer_is_small(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    def read() -> str:
        return "x" * 45_000

    app = app_of(ScriptedModel([call("read"), say("done")]), read)
    async with stage(server, app, tmp_path / "workers") as on:
        conversation = (await elsewhere(on, tmp_path / "clients")).conversation()

        submission = await conversation.submit("go")

        assert (await submission.wait()).answer_text == "done"
        run = on.client.get_workflow_handle((await submission.status()).generation_id)
        assert len(str(await run.result())) > INLINE_BYTES


async def test_waiting_follows_a_run_that_continues_as_new(lowered_server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel([*[call("work", what=str(n)) for n in range(4)], say("done")])
    async with stage(lowered_server, app_of(model, held.tool), tmp_path, turnover_events=10) as on:
        submission = await on.harness.conversation().submit("go")
        waiting = asyncio.ensure_future(submission.wait())
        await held.begun()
        held.go.set()

        assert (await waiting).answer_text == "done"
        runs = f'WorkflowType = "{GENERATION}" AND WorkflowId = "{(await submission.status()).generation_id}"'
        assert (await on.client.count_workflows(runs)).count > 1


@pytest.mark.parametrize("place", ["placed", "queued"])
async def test_waiting_in_a_terminated_conversation_ends(server: EmbeddedServer, tmp_path: Path, place: str) -> None:
    model = HeldModel(ScriptedModel([say("never")]))
    async with stage(server, app_of(model), tmp_path, heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        waited_for = await conversation.submit("first")
        await model.asked.wait()
        if place == "queued":
            waited_for = await conversation.submit("second")
        waiting = asyncio.ensure_future(waited_for.wait())

        await succeeds(server, "workflow", "terminate", "--workflow-id", conversation.id, "--reason", "drill")

        with pytest.raises(NoSuchConversation, match=f"{conversation.id} was closed before it settled the input"):
            await waiting


async def test_old_answer_is_read_from_the_one_page_that_holds_it(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(ScriptedModel.for_each_input([lambda request: say(request.messages[-1].text)]))
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        for letter in "abc":
            await (await conversation.submit(letter * 70_000, request_id=letter)).wait()
        pages = (await conversation.view()).pages
        assert len(pages) > 1
        read = recorded_pages(monkeypatch)

        answer = (await conversation.submission("b").wait()).answer_text

        assert answer == "b" * 70_000
        assert len(read) == 1


def recorded_pages(patch: pytest.MonkeyPatch) -> list[PageRef]:
    """The pages that any reader reads from now on."""
    read: list[PageRef] = []
    page = EntryReader.page

    async def recording(self: EntryReader, ref: PageRef) -> Sequence[object]:
        read.append(ref)
        return await page(self, ref)

    patch.setattr(EntryReader, "page", recording)
    return read


async def test_each_refused_input_tells_its_own_reason_in_one_line(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("done")]))
    async with idle_stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("a")
        refused = [await conversation.submit(text, when_busy="reject") for text in ("b", "c")]
        async with on.worker():
            for one in (*refused, conversation.submission("never sent")):
                with pytest.raises(SubmissionRefused) as raised:
                    await one.wait()
                told = str(raised.value)
                assert told.count("busy") == (1 if one in refused else 0)
                assert (one.request_id in told, "\n" in told) == (True, False)
            model.go.set()


@pytest.fixture(scope="module")
async def deaf_server() -> AsyncIterator[EmbeddedServer]:
    """A server on which a workflow's run takes three signals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "DYNAMIC_CONFIG", (*embedded.DYNAMIC_CONFIG, "history.maximumSignalsPerExecution=3"))
        async with EmbeddedServer() as running:
            yield running


async def test_stop_reaches_a_conversation_that_takes_no_more_signals(
    deaf_server: EmbeddedServer, tmp_path: Path
) -> None:
    model = HeldModel(ScriptedModel.for_each_input([say("done")]))
    async with stage(deaf_server, app_of(model), tmp_path, heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await model.asked.wait()
        for _ in range(3):
            await on.client.get_workflow_handle(conversation.id).signal(RETRY)

        await conversation.abort()

        assert (await submission.wait()).reason == "aborted"
        model.go.set()
        assert (await (await conversation.submit("again")).wait()).answer_text == "done"


async def test_silent_server_is_one_error_for_everything_that_is_asked_of_it(tmp_path: Path) -> None:
    async with EmbeddedServer() as gone:
        client = await Client.connect(gone.address, data_converter=data_converter(str(tmp_path)))
    harness = Harness(client)
    conversation = harness.conversation()

    asked = [conversation.submit("x"), conversation.view(), conversation.transcript(), conversation.abort()]
    committed = conversation.commit(tasks=[Start(DurableTask("app.rest", int, int), 1, "rest")])
    ends = await asyncio.gather(*asked, committed, harness.retry("x"), listed(harness), return_exceptions=True)

    assert [type(end) for end in ends] == [ServerUnavailable] * 7
    assert {"\n" in str(end) for end in ends} == {False}


async def listed(harness: Harness) -> list[object]:
    return [item async for item in harness.work()]


async def test_what_a_worker_took_along_as_it_was_lost_is_asked_again(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HeldModel(ScriptedModel([say("done")]))
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("go")
        await model.asked.wait()

        assert [entry.kind for entry in await lost_once(monkeypatch, conversation.transcript)] == ["user"]
        assert await lost_once(monkeypatch, conversation.usage) == Ledger()
        model.go.set()


async def lost_once(monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, where of every question the first attempt is never answered."""
    asked: set[tuple[str, str]] = set()
    answered = WorkflowHandle.query

    async def losing(self: WorkflowHandle[Any, Any], name: str, *args: Any, **named: Any) -> Any:
        if (self.id, name) not in asked:
            asked.add((self.id, name))
            raise RPCError("its worker was lost", RPCStatusCode.DEADLINE_EXCEEDED, b"")
        return await answered(self, name, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(WorkflowHandle, "query", losing)
        return await ask()
