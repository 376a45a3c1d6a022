"""What a shell can send to tasks and conversations: none of it stops a workflow (spec §3.3)."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from signals import Sleep
from tarry.app import Extension
from tarry.core.commits import COMMIT
from tarry.core.gates import ASK_GATES, TELL_RESULT
from tarry.core.protocol import ABORT, CONVERSATION, SUBMIT, VIEW
from tarry.core.views import ConversationView
from tarry.core.waiting import CREATE_CHILD, JUDGE, WATCH
from tarry.embedded import EmbeddedServer
from tarry.hooks import CallResult, HookApi, HookCall
from tarry.testing import ScriptedModel, say
from tests.support.gating import Heard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, Call, Waits, envelope, start, waiting_app, wedges, workflows_only
from tests.support.shell import signal, succeeds
from tests.support.stage import Stage, app_of, idle_stage, stage
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
FOR_AN_ANSWER = Sleep(signals=[ANSWER.key("done")], until=HOUR)


@pytest.mark.parametrize("watcher", ["", "x" * 1_500])
async def test_a_watcher_that_no_workflow_can_be_is_nobody(
    server: EmbeddedServer, tmp_path: Path, watcher: str
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()

        await signal(server, call.id, WATCH, json.dumps(watcher))
        await signal(server, call.id, ANSWER.name, envelope("done", {"text": "on"}))

        assert "on" in (await call.ends()).text
        assert wedges(await call.events()) == []


async def test_who_watches_while_hooks_hear_of_the_result_is_told_of_the_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard, go_on = threading.Event(), threading.Event()

    def after(call: HookCall, result: CallResult, api: HookApi) -> None:
        heard.set()
        go_on.wait(10)

    waits, ledger = Waits(FOR_AN_ANSWER), Ledger()
    app = gated_app(ledger.edit, gate(after=after, io=True), Extension("more", [waits.tool]))
    async with stage(server, app, tmp_path) as on:
        watched = await start_gated(on, "edit", path="a")
        watcher = await start(on, waits.tool)
        await watcher.parked()
        await asyncio.to_thread(heard.wait)

        await signal(server, watched.id, WATCH, json.dumps(watcher.id))
        go_on.set()
        await watched.ends()

        names = [event.workflow_execution_signaled_event_attributes.signal_name for event in await watcher.events()]
        assert names.count("tarry.ended") == 1


@pytest.mark.parametrize("deadline", ["2020-01-01T00:00:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
async def test_a_stop_with_an_absurd_deadline_cleans_up_like_any_other(
    server: EmbeddedServer, tmp_path: Path, deadline: str
) -> None:
    cleaned: list[str] = []
    waits = Waits(FOR_AN_ANSWER, cancel=lambda api: cleaned.append(api.task_id))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()

        await signal(server, call.id, ABORT, json.dumps({"deadline": deadline}))

        assert (await call.ends()).code == "aborted"
        assert cleaned == [call.id]
        assert wedges(await call.events()) == []


@pytest.mark.parametrize("odd", [{"timeout": -5_000}, {"timeout": 1e300}, {"tool": "t" * 5_000}])
async def test_a_child_that_no_program_of_ours_would_ask_for_ends_like_any_other(
    server: EmbeddedServer, tmp_path: Path, odd: dict[str, Any]
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()

        wanted = {"key": "k", "run": 1, "attempt": 1, "call": {"call_id": "c", "tool": "t"} | odd}
        await _update(server, call.id, CREATE_CHILD, wanted)
        await signal(server, call.id, ANSWER.name, envelope("done", {"text": "on"}))

        assert "on" in (await call.ends()).text
        child = Call(on.client, f"{call.id}/k.k")
        assert [*wedges(await call.events()), *wedges(await child.events())] == []


@pytest.mark.parametrize("result", ["null", "[]", '{"verdicts": 7}', '"delivered"'])
async def test_a_verdict_that_a_person_makes_up_is_none(server: EmbeddedServer, tmp_path: Path, result: str) -> None:
    waits = Waits(FOR_AN_ANSWER)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
        async with workflows_only(on):
            await signal(server, call.id, ANSWER.name, envelope("done", {"text": "on"}))

            await _complete(server, on, call, JUDGE, result)

            assert await call.answers(1) == ["invalid"]
            assert wedges(await call.events()) == []


@pytest.mark.parametrize("result", ["null", "[]", '{"decision": "yes"}'])
async def test_a_pass_that_a_person_makes_up_blocks_and_its_result_stands(
    server: EmbeddedServer, tmp_path: Path, result: str
) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, gate(before=lambda call, api: None, after=Heard()))
    async with idle_stage(server, app, tmp_path) as on, workflows_only(on):
        call = await start_gated(on, "edit", path="a")

        await _complete(server, on, call, ASK_GATES, result)
        await _complete(server, on, call, TELL_RESULT, result)

        outcome = await call.ends()
        assert (outcome.code, ledger.runs) == ("blocked", [])
        assert "no answer that can be read" in outcome.text
        assert wedges(await call.events()) == []


async def test_what_an_outbox_cannot_deliver_keeps_nothing_that_comes_after_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(FOR_AN_ANSWER)
    task: dict[str, Any] = {"conversation_id": "", "call": {"call_id": "", "tool": "t"}, "settings": {}}
    odd: list[dict[str, Any]] = [
        {"kind": "signal", "task_id": "x", "delivery": {"signal": "tarry.submission-settled", "key": "k", "value": 1}},
        {"kind": "task", "task_id": "", "digest": "", "input": task},
        {"kind": "task", "task_id": "y" * 3_000, "digest": "", "input": task},
    ]
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        conversation = on.harness.conversation(f"c-{uuid.uuid4().hex[:8]}")
        await conversation.submit("hello")

        delivery = {"signal": ANSWER.name, "key": "done", "value": {"text": "on"}, "delivery_id": "d"}
        sends = [*odd, {"kind": "signal", "task_id": call.id, "delivery": delivery}]
        await _update(server, conversation.id, COMMIT, {"key": "all", "sends": sends})

        assert "on" in (await call.ends()).text


async def test_a_conversation_that_is_started_without_an_input_answers(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel([say("hello")])), tmp_path) as on:
        conversation = on.harness.conversation(f"c-{uuid.uuid4().hex[:8]}")

        await _start_conversation(server, on, conversation.id)

        assert (await (await conversation.submit("hi")).wait()).answer_text == "hello"


async def test_a_conversation_under_an_id_without_room_for_its_runs_refuses_inputs(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(ScriptedModel([say("hello")])), tmp_path) as on:
        id = "c" * 995
        await _start_conversation(server, on, id)

        await signal(server, id, SUBMIT, json.dumps({"content": "hi", "request_id": "r"}))

        handle = on.client.get_workflow_handle(id)
        view: ConversationView = await handle.query(VIEW, result_type=ConversationView)
        assert [(refusal.request_id, "too long" in refusal.reason) for refusal in view.refusals] == [("r", True)]


async def _start_conversation(server: EmbeddedServer, on: Stage, id: str) -> None:
    kind = ("--type", CONVERSATION, "--task-queue", on.settings.task_queue)
    await succeeds(server, "workflow", "start", "--workflow-id", id, *kind)


async def _update(server: EmbeddedServer, workflow_id: str, name: str, input: Any) -> None:
    await succeeds(
        server, "workflow", "update", "execute", "--workflow-id", workflow_id, "--name", name,
        "--input", json.dumps(input),
    )  # fmt: skip


async def _complete(server: EmbeddedServer, on: Stage, call: Call, name: str, result: str) -> None:
    """Complete an activity by hand, once it is there."""

    async def pending() -> str:
        found = await on.client.get_workflow_handle(call.id).describe()
        open_ones = found.raw_description.pending_activities
        return next((one.activity_id for one in open_ones if one.activity_type.name == name), "")

    activity_id = await eventually(pending)
    what = ("--workflow-id", call.id, "--activity-id", activity_id, "--result", result)
    await succeeds(server, "activity", "complete", *what)
