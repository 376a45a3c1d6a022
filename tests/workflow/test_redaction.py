"""What lists, the Web UI's lines and a worker's log show where an application has a redactor (spec §20.4)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent

from signals import Sleep
from signals.tokens import Signal
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.offers import Offered
from tarry.redaction import Shown
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.parking import Answer
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

Paid = Signal("test.paid", 1, Answer)
CARD = "4711-0815"


@tool(replay="safe")
async def pay(card: str, amount: int, api: ToolApi) -> str | Sleep:
    """Pay, once somebody agrees."""
    await asyncio.sleep(0)
    if api.wake is None:
        return Sleep(signals=[Paid.key("ok")], until=timedelta(hours=1), ask=f"Charge {card} with {amount}?")
    return f"paid with {card}"


def redact(shown: Shown) -> Any:
    if shown.field == "arguments":
        return {"amount": shown.value["amount"]}
    return shown.value.replace(CARD, "a card")


def paying(asked: list[ModelRequest]) -> App:
    model = ScriptedModel([call("pay", card=CARD, amount=3), say("done")], on_request=asked.append)
    # One that says what is offered is asked before each request; what is left then has the redactor too.
    offering = Extension("offering", offer=lambda _: Offered())
    return App(model=model, extensions=[Extension("test", [pay], signals=[Paid]), offering], redact=redact)


async def summaries(on: Stage, conversation_id: str) -> list[str]:
    """What the Web UI shows beside workflows and activities."""
    found: list[str] = []
    async for execution in on.client.list_workflows(f'TarryConversation = "{conversation_id}"'):
        handle = on.client.get_workflow_handle(execution.id)
        found.append(await (await handle.describe()).static_summary() or "")
        for event in (await handle.fetch_history()).events:
            found.append(await _summary(on, event))
    return found


async def _summary(on: Stage, event: HistoryEvent) -> str:
    payload = event.user_metadata.summary
    return "" if not payload.data else str((await on.client.data_converter.decode([payload]))[0])


async def test_a_note_a_question_and_summaries_show_what_the_redactor_leaves_and_the_tool_has_it_all(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    async with stage(server, paying(asked), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("pay")
        [question] = await eventually(lambda: on.harness.questions(conversation.id))
        shown = [text for text in await summaries(on, conversation.id) if "pay(" in text]
        await on.harness.signal(question.task_id, Paid, "ok", Answer(text="yes"))
        await submission.wait()

    assert (question.question, question.arguments) == ("Charge a card with 3?", '{"amount":3}')
    assert set(shown) == {"pay(amount=3)"}
    [result] = [message for message in asked[-1].messages if isinstance(message, ToolMessage)]
    assert f"paid with {CARD}" in result.text


async def test_whatever_a_redactor_does_the_tool_runs_with_what_the_model_sent(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ran: list[dict[str, str]] = []

    @tool
    def send(to: dict[str, str]) -> str:
        """Send."""
        ran.append(to)
        return "sent"

    def careless(shown: Shown) -> Any:
        if shown.field != "arguments":
            return shown.value
        shown.value["to"].clear()
        return shown.value | {"left": object()}

    model = ScriptedModel([call("send", to={"iban": "DE1"}), say("done")])
    app = App(model=model, extensions=[Extension("test", [send])], redact=careless)
    async with stage(server, app, tmp_path, trace_content=True) as on:
        submission = await on.harness.conversation().submit("send")
        view = await submission.wait()

    assert (view.answer_text, ran) == ("done", [{"iban": "DE1"}])
