"""Work under a key: what the server's file and the store hold, rotations, migrations and keys that are missing."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure

from signals import Sleep
from signals.parking import Ask
from signals.tokens import Signal
from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.codec import MissingKey
from tarry.codec.census import CLEAR, key_ids
from tarry.codec.unreadable import ENCODING, KEY_ID
from tarry.connect import INLINE_BYTES
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import environment_of
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import RetryTool, tool
from tests.support.answers import ask
from tests.support.command import Command
from tests.support.keys import VARIABLES, codec, files_with, with_settings
from tests.support.parking import (
    ANSWER,
    Answer,
    Call,
    Waits,
    envelope,
    names,
    start,
    tools_only,
    waiting_app,
    wedges,
    workflows_only,
)
from tests.support.shell import signal, succeeds
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
FOR_AN_ANSWER = Sleep(signals=[ANSWER.key("done")], until=HOUR)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of tests, where the settings say they are."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def words(name: str) -> str:
    """A text that is found even where the file's pages cut it into parts."""
    return " ".join([f"zq-{name}"] * 20)


Word = Signal("test.word", 1, Answer)

TEXTS = (
    "input", "instructions", "answer", "argument", "result", "output", "large", "remembered", "checkpoint", "question",
    "value", "error", "retried", "summary", "choice", "note",
)  # fmt: skip


@tool
async def look(what: str, api: ToolApi) -> str:
    """Look, and tell on the way."""
    api.output(words("output"))
    await asyncio.sleep(0.5)  # what is published leaves with a heartbeat
    return words("result")


@tool
async def read() -> str:
    """Read more than history takes."""
    await asyncio.sleep(0)
    return words("large") + "\n" + "x" * INLINE_BYTES


@tool
async def fail() -> str:
    """Fail."""
    await asyncio.sleep(0)
    raise ValueError(words("error"))


@tool(replay="safe")
async def try_again(api: ToolApi) -> str:
    """Fail once, in a way that leaves the activity."""
    await asyncio.sleep(0)
    if api.attempt == 1:
        raise RetryTool(words("retried"))
    return "done"


@tool(replay="safe")
async def ask_ana(api: ToolApi) -> str | Sleep:
    """Ask, and wait."""
    await api.memo("kept", words("remembered"))
    match await api.read_signal(Word, "answer"):
        case Received(value=value):
            return f"{len(value.text)}"
    ask = Ask(text=words("question"), for_whom="ana")
    return Sleep(checkpoint=words("checkpoint"), signals=[Word.key("answer")], until=HOUR, ask=ask)


def conversing_app() -> App:
    """Everything that an agent does, each with a text of its own."""
    model = ScriptedModel(
        [
            calls(call("look", what=words("argument")), call("read"), call("fail"), call("try_again")),
            call("ask_ana"),
            say(words("answer")),
        ],
        summary=[say(words("summary"))],
    )
    extension = Extension("test", [look, read, fail, try_again, ask_ana], signals=[Word])
    return App(model=model, instructions=words("instructions"), extensions=[extension])


async def converse(on: Stage) -> None:
    """A whole conversation: tools, a large result, a failure, a park, a signal, notes, choices and a compaction."""
    conversation = on.harness.conversation()
    submission = await conversation.submit(words("input"))
    [question] = await eventually(lambda: on.harness.questions(conversation.id))
    assert words("question").startswith(question.question[:100])
    await on.harness.signal(question.task_id, Word, "answer", Answer(text=words("value")))
    assert (await submission.wait()).answer_text == words("answer")
    await conversation.write(words("note"))
    await conversation.configure(instructions=words("choice"))
    assert (await (await conversation.compact()).wait()).status == "placed"


async def kept_by(folder: Path, **chosen: Any) -> dict[str, list[str]]:
    """Have the conversation on a server with a file, and tell which files hold each text then."""
    database, store = folder / "server", folder / "store"
    async with EmbeddedServer(ServerOptions(database=database / "temporal.db")) as server:
        async with stage(server, conversing_app(), store, keep_recent_tokens=1, **chosen) as on:
            await converse(on)
        # Also what a clean end would write into the one file.
        open_files = {name: files_with(f"zq-{name}", database, store) for name in TEXTS}
    return {name: sorted({*open_files[name], *files_with(f"zq-{name}", database, store)}) for name in TEXTS}


async def test_no_text_of_a_conversation_is_in_the_servers_file_or_in_the_store(tmp_path: Path) -> None:
    assert await kept_by(tmp_path, **codec("new")) == {name: [] for name in TEXTS}
    assert files_with(VARIABLES["TEST_KEY_NEW"], tmp_path) == []


async def test_without_keys_each_of_these_texts_is_found_there(tmp_path: Path) -> None:
    found = await kept_by(tmp_path)

    assert [name for name in TEXTS if not found[name]] == []
    assert any("temporal.db" not in name for name in found["large"]), "the store holds what is large"


async def test_a_call_parked_before_a_rotation_is_woken_after_it_by_workers_of_both_steps(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, **codec("old")) as first:
        async with first.worker():
            call = await start(first, waits.tool)
            await call.parked()
        assert await key_ids_of(call) == {"old"}

        handed_out = await with_settings(server, first, **codec("old", "old", "new"))
        turned = await with_settings(server, first, **codec("new", "new", "old"))
        async with handed_out.worker(), turned.worker():
            receipt = await turned.harness.signal(call.id, ANSWER, "done", Answer(text="turned"))
            outcome = await handed_out.client.get_workflow_handle(call.id, result_type=dict).result()

        assert receipt.answer == "delivered"
        assert "turned" in json.dumps(outcome)
        assert "new" in await key_ids_of(call)
        assert CLEAR not in await key_ids_of(call)
        assert wedges(await call.events()) == []


async def test_a_worker_without_the_key_loses_nothing_and_one_that_has_it_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, **codec("new")) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
        await call.signal("done", {"text": "it goes on"})

        behind = await with_settings(server, on, **codec("old"))
        async with behind.worker():
            [failed, *_] = await eventually(lambda: failures(call))
            said = await behind.client.data_converter.decode_failure(failed)
            assert "encrypted with key new, which this process does not have" in str(said)

        async with on.worker():
            assert "it goes on" in (await call.ends()).text
        with pytest.raises(MissingKey, match="encrypted with key new"):
            await behind.client.get_workflow_handle(call.id).result()


async def key_ids_of(call: Call) -> set[str]:
    """What anything in its history is encrypted with."""
    return {id for event in await call.events() for id in key_ids(event)}


async def test_a_tool_that_a_worker_without_the_key_takes_is_run_by_another_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    both = codec("new", "new", "old")
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, **both) as on, workflows_only(on):
        behind = await with_settings(server, on, **codec("old"))
        async with tools_only(behind):
            call = await start(on, waits.tool)
            await eventually(call.events, lambda events: "ACTIVITY_TASK_FAILED" in names(events))
        async with tools_only(on):
            await eventually(call.view, lambda view: view.state == "sleeping")

        assert len(waits.seen) == 1
        assert wedges(await call.events()) == []


async def failures(call: Call) -> list[Failure]:
    """Why its workflow tasks failed, which are tried again."""
    failed = [event.workflow_task_failed_event_attributes for event in await call.events()]
    return [one.failure for one in failed if one.HasField("failure")]


async def test_a_clear_signal_from_a_shell_is_refused_and_the_call_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with stage(server, waiting_app(waits.tool), tmp_path, **codec("new")) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await signal(server, call.id, ANSWER.name, envelope("done", {"text": "forged"}))
        await eventually(call.receipts)
        await call.signal("done", {"text": "it goes on"})

        assert "it goes on" in (await call.ends()).text
        refused, taken = await call.receipts()
        assert (refused.answer, taken.answer) == ("invalid", "delivered")
        assert "it is not encrypted" in refused.reason
        assert wedges(await call.events()) == []


async def test_a_forged_payload_is_refused_and_the_call_goes_on(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(FOR_AN_ANSWER)
    forged = ("--input", '"forged"', "--input-meta", f"encoding={ENCODING.decode()}", "--input-meta", f"{KEY_ID}=new")
    async with stage(server, waiting_app(waits.tool), tmp_path, **codec("new")) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await succeeds(server, "workflow", "signal", "--workflow-id", call.id, "--name", ANSWER.name, *forged)
        await eventually(call.receipts)
        await call.signal("done", {"text": "it goes on"})

        assert "it goes on" in (await call.ends()).text
        refused, taken = await call.receipts()
        assert (refused.answer, taken.answer) == ("invalid", "delivered")
        assert "it does not fit key new" in refused.reason


async def test_a_forged_payload_of_a_key_that_nobody_has_stops_that_call_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    forged = ("--input", '"forged"', "--input-meta", f"encoding={ENCODING.decode()}", "--input-meta", f"{KEY_ID}=gone")
    async with stage(server, waiting_app(waits.tool), tmp_path, **codec("new")) as on:
        struck, other = await start(on, waits.tool), await start(on, waits.tool)
        await struck.parked()
        await other.parked()
        await succeeds(server, "workflow", "signal", "--workflow-id", struck.id, "--name", ANSWER.name, *forged)
        [failed, *_] = await eventually(lambda: failures(struck))
        await other.signal("done", {"text": "it goes on"})

        assert "it goes on" in (await other.ends()).text
        assert "encrypted with key gone" in str(await on.client.data_converter.decode_failure(failed))


async def test_lists_show_what_is_not_readable_here_beside_all_the_rest(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR, ask="Did it work?"))
    async with (
        stage(server, waiting_app(waits.tool), tmp_path / "a", **codec("new")) as encrypted,
        stage(server, waiting_app(waits.tool), tmp_path / "b") as clear,
    ):
        theirs, ours = await start(encrypted, waits.tool), await start(clear, waits.tool)
        await theirs.parked()
        await ours.parked()
        items = {item.id: item async for item in clear.harness.work()}
        questions = {one.task_id: one for one in await clear.harness.questions()}

    assert items[ours.id].question == questions[ours.id].question == "Did it work?"
    assert (items[theirs.id].state, items[theirs.id].tool) == ("sleeping", "waits")
    assert "encrypted with key new" in items[theirs.id].question
    assert (questions[theirs.id].keys, questions[theirs.id].digest) == ((), "")


async def test_usage_adds_up_what_is_readable_here_and_names_the_rest(server: EmbeddedServer, tmp_path: Path) -> None:
    app = App(model=ScriptedModel.for_each_input([say("fine")]))
    async with stage(server, app, tmp_path, **codec("new")) as encrypted:
        await ask(encrypted.harness.conversation("usage-sealed"))
    clear = await with_settings(server, encrypted)
    async with clear.worker():
        await ask(clear.harness.conversation("usage-open"))

    report = await clear.harness.usage()
    where = {"TARRY_TASK_QUEUE": clear.settings.task_queue, "TARRY_STORE": str(tmp_path)}
    told = await Command(tmp_path, environment_of(server.address) | where).run("usage")

    assert (list(report.conversations), report.unreadable) == (["usage-open"], ("usage-sealed",))
    assert (told.code, told.out.count("scripted/1")) == (0, 1)
    assert told.err == "tarry: not counted, since this process has no key for them: conversation usage-sealed\n"


async def test_a_deployment_moves_to_keys_while_a_call_is_parked(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(FOR_AN_ANSWER, Sleep(signals=[ANSWER.key("more")], until=HOUR))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as before:
        async with before.worker():
            call = await start(before, waits.tool)
            await call.parked()

        handed_out = await with_settings(server, before, **codec("none", "new"))
        moving = await with_settings(server, before, **codec("new", clear=True))
        async with handed_out.worker(), moving.worker():
            await moving.harness.signal(call.id, ANSWER, "done", Answer(text="one"))
            await Call(moving.client, call.id).parked(2)
        assert await key_ids_of(call) >= {CLEAR, "new"}

        # Too early: it is told, and nothing is lost.
        strict = await with_settings(server, before, **codec("new"))
        failed = len(await failures(call))
        async with strict.worker():
            await strict.client.get_workflow_handle(call.id).signal(
                ANSWER.name, {"key": "more", "value": {"text": "two"}}
            )
            await eventually(lambda: failures(call), lambda found: len(found) > failed)

        async with moving.worker():
            outcome = await moving.client.get_workflow_handle(call.id, result_type=dict).result()
        assert "two" in json.dumps(outcome)
