"""Inputs by plain Temporal signal, sent by the real command: any shell may, and none can do harm (spec §7.1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tarry.client import Conversation
from tarry.core.choices import CONFIGURE
from tarry.core.compaction_protocol import COMPACT
from tarry.core.protocol import ABORT, CONVERSATION, RETRY, SUBMIT, WITHDRAW
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, say
from tests.support.held import HeldTool
from tests.support.shell import signal, succeeds, temporal
from tests.support.stage import Stage, app_of, idle_stage, stage


def echo(request: ModelRequest) -> Reply:
    """Answer the newest input by its own text."""
    return say(f"{request.messages[-1].text}!")


ECHO = app_of(ScriptedModel.for_each_input([echo]))


async def started(on: Stage) -> Conversation:
    """A conversation with one answered input."""
    conversation = on.harness.conversation()
    await (await conversation.submit("first")).wait()
    return conversation


async def texts(conversation: Conversation) -> list[str]:
    """The text of every message, oldest first."""
    return [entry.message.text for entry in await conversation.transcript() if entry.message is not None]


async def failed_tasks(on: Stage, conversation: Conversation) -> int:
    """Workflow tasks that failed, in all workflows of the conversation."""
    histories = await on.histories(conversation.id)
    return sum(events.count("WORKFLOW_TASK_FAILED") for events in histories.values())


async def test_sixty_signals_are_answered_once_and_in_order_while_the_workflow_turns_over(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(lowered_server, ECHO, tmp_path, turnover_events=30) as on:
        conversation = await started(on)
        for n in range(60):
            input = {"content": f"input {n}", "request_id": f"r{n}", "settings": {"turnover_events": 30}}
            await signal(lowered_server, conversation.id, SUBMIT, json.dumps(input))

        assert (await conversation.submission("r59").wait()).answer_text == "input 59!"
        answered = [text for n in range(60) for text in (f"input {n}", f"input {n}!")]
        assert await texts(conversation) == ["first", "first!", *answered]
        assert (await on.client.count_workflows(f'WorkflowId = "{conversation.id}"')).count > 5


NO_INPUT = f"{SUBMIT}: one JSON object expected, 0 inputs came"
TWO_INPUTS = f"{SUBMIT}: one JSON object expected, 2 inputs came"
UNREADABLE = f"{SUBMIT}: not readable: "
UNKNOWN = f": no such signal; known are {SUBMIT}, {WITHDRAW}, {COMPACT}, {CONFIGURE}, {ABORT}"
GOOD = '{"content": "x"}'

MALFORMED: dict[str, tuple[list[str], str]] = {
    "no input": ([], NO_INPUT),
    "two inputs": (["--input", GOOD, "--input", GOOD], TWO_INPUTS),
    "a number": (["--input", "5"], UNREADABLE),
    "null": (["--input", "null"], UNREADABLE),
    "a list": (["--input", "[]"], UNREADABLE),
    "an object without content": (["--input", "{}"], UNREADABLE),
    "encoded twice": (["--input", json.dumps(GOOD)], UNREADABLE),
    "content of another type": (["--input", '{"content": 5}'], UNREADABLE),
    "a lone surrogate": (["--input", r'{"content": "\ud800"}'], UNREADABLE),
    "a request id without end": (["--input", json.dumps({"content": "x", "request_id": "r" * 1000})], UNREADABLE),
    "settings that no run can have": (
        ["--input", '{"content": "x", "settings": {"heartbeat_timeout": -1}}'],
        UNREADABLE,
    ),
    "settings beyond all bounds": (
        ["--input", '{"content": "x", "settings": {"model_idle_timeout": 1e300}}'],
        UNREADABLE,
    ),
    "bytes": (["--input", GOOD, "--input-meta", "encoding=binary/plain"], UNREADABLE),
    "an encoding that nobody knows": (["--input", GOOD, "--input-meta", "encoding=acme/secret"], UNREADABLE),
}


async def test_malformed_signals_are_remembered_and_the_next_good_one_is_answered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, ECHO, tmp_path) as on:
        conversation = await started(on)

        for options, _ in MALFORMED.values():
            await succeeds(server, "workflow", "signal", "-w", conversation.id, "--name", SUBMIT, *options)
        await signal(server, conversation.id, "tarry.sumbit", GOOD)
        await signal(server, conversation.id, RETRY)

        expected = [reason for _, reason in MALFORMED.values()] + [f"tarry.sumbit{UNKNOWN}", f"{RETRY}{UNKNOWN}"]
        refusals = [refusal.reason for refusal in (await conversation.view()).refusals]
        assert [told[: len(reason)] for told, reason in zip(refusals, expected, strict=True)] == expected
        await signal(server, conversation.id, SUBMIT, '{"content": "good", "request_id": "r1"}')
        assert (await conversation.submission("r1").wait()).answer_text == "good!"
        assert await texts(conversation) == ["first", "first!", "good", "good!"]
        assert await failed_tasks(on, conversation) == 0


async def test_a_wish_to_withdraw_that_names_nothing_is_told_as_that(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, ECHO, tmp_path) as on:
        conversation = await started(on)

        await succeeds(server, "workflow", "signal", "-w", conversation.id, "--name", WITHDRAW)
        await signal(server, conversation.id, WITHDRAW, '{"request_id": "r1"}')

        refusals = [refusal.reason for refusal in (await conversation.view()).refusals]
        assert refusals[0] == f"{WITHDRAW}: one JSON text expected, 0 inputs came"
        assert refusals[1].startswith(f"{WITHDRAW}: not readable: ")


async def test_signals_that_the_shell_or_the_server_refuse_leave_no_trace(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    huge = tmp_path / "huge.json"
    huge.write_text(json.dumps({"content": "x" * 3_000_000}))
    async with stage(server, ECHO, tmp_path / "store") as on:
        conversation = await started(on)
        address = ("workflow", "signal", "--workflow-id", conversation.id, "--name", SUBMIT)

        not_json = await temporal(server, *address, "--input", "not JSON")
        too_large = await temporal(server, *address, "--input-file", str(huge))

        assert (not_json.returncode, too_large.returncode) == (1, 1)
        assert "not valid JSON" in not_json.stderr
        assert "exceeds" in too_large.stderr
        assert (await conversation.view()).refusals == ()
        await signal(server, conversation.id, SUBMIT, '{"content": "good", "request_id": "r1"}')
        assert (await conversation.submission("r1").wait()).answer_text == "good!"


async def test_refusals_by_rule_are_remembered_and_only_the_newest_twenty(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        async with on.worker():
            conversation = await started(on)
        handle = on.client.get_workflow_handle(conversation.id)
        for n in range(21):
            await handle.signal(f"unknown-{n}")
        await handle.signal(SUBMIT, {"content": "é" * 300_000, "request_id": "large"})
        await handle.signal(SUBMIT, {"content": "a", "request_id": "r1"})
        await handle.signal(SUBMIT, {"content": "b", "request_id": "r1"})
        await handle.signal(SUBMIT, {"content": "c", "request_id": "r2", "when_busy": "reject"})

        async with on.worker():
            assert (await conversation.submission("r1").wait()).answer_text == "a!"
            assert tuple(refusal.reason for refusal in (await conversation.view()).refusals) == (
                *(f"unknown-{n}{UNKNOWN}" for n in range(4, 21)),
                f"{SUBMIT}: the input has 600000 bytes, 524288 are allowed; put it into a file and name that",
                f"{SUBMIT}: request id 'r1' was used for other content",
                f"{SUBMIT}: the conversation is busy",
            )
            assert await texts(conversation) == ["first", "first!", "a", "a!"]


async def test_conversation_started_by_a_plain_signal_answers_like_any_other(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        await succeeds(
            server,
            *("workflow", "signal-with-start", "--type", CONVERSATION, "--task-queue", on.settings.task_queue),
            *("--workflow-id", conversation.id, "--input", "{}", "--signal-name", SUBMIT),
            *("--signal-input", '{"content": "hello", "request_id": "r1"}'),
        )
        assert (await conversation.submission("r1").wait()).answer_text == "hello!"
        assert (await (await conversation.submit("hello", request_id="r1")).wait()).answer_text == "hello!"
        assert conversation.id in [item.conversation_id async for item in on.harness.work()]


@pytest.mark.parametrize("name", ["unknown", RETRY, SUBMIT])
async def test_stray_signals_to_a_run_and_to_a_call_harm_nothing(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([call("work", what="it"), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()
        run_id = (await conversation.view()).open_generation
        assert run_id is not None

        for workflow_id in (run_id, f"{run_id}/t1.0"):
            await signal(server, workflow_id, name)
            await signal(server, workflow_id, name, "1", "2")
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert held.ledger == ["it"]
        assert await failed_tasks(on, conversation) == 0
