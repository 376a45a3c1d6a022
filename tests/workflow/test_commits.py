"""Commits: several changes to a conversation that become durable together, once for each key (spec §7.3)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from tarry import App, DurableTask, Extension, Received, RequestConflict, Send, Signal, Sleep, Start, ToolApi
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import ask
from tests.support.stage import kinds, stage
from tests.support.waiting import eventually


class News(BaseModel):
    text: str


NEWS = Signal("app.news", 1, News)


def waiting() -> DurableTask[str, str]:
    """Waits for news of a topic."""
    task = DurableTask("app.wait", str, str)

    @task.phase
    async def begin(topic: str, api: ToolApi) -> Sleep | str:
        match await api.read_signal(NEWS, topic):
            case Received(value=news):
                return news.text
            case _:
                return Sleep(signals=[NEWS.key(topic)], until=timedelta(hours=1))

    return task


def app_with(committing: Tool, *answers: str) -> App:
    script = [calls(call(committing.name)), *(say(answer) for answer in answers)]
    return App(
        model=ScriptedModel(script), extensions=[Extension("test", [committing], signals=[NEWS], tasks=[waiting()])]
    )


async def test_notes_inputs_signals_and_tasks_of_a_commit_happen_together_and_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    told: list[bool] = []
    topics = waiting()

    @tool
    async def publish(api: ToolApi) -> str:
        for _ in range(2):
            told.append(
                await api.commit(
                    key="publish",
                    notes=["published"],
                    inputs=["and now?"],
                    signals=[Send("task-reader", NEWS, "a", News(text="it rains"))],
                    tasks=[Start(topics, "b", "watch")],
                )
            )
        with pytest.raises(RequestConflict):
            await api.commit(key="publish", notes=["something else"])
        return "published"

    async with stage(server, app_with(publish, "first", "second"), tmp_path) as on:
        reader = await on.harness.start_task(topics, "a", key="reader")
        conversation = on.harness.conversation()
        await ask(conversation, "go")

        assert told == [True, False]
        assert (await reader.outcome()).result == "it rains"
        entries = await eventually(conversation.transcript, lambda found: len(kinds(found)) == 7)
        assert kinds(entries) == [
            "user",
            "assistant",
            "tool_result",
            "note",
            "assistant",
            "user",
            "assistant",
        ]
        started = f"{conversation.id}~{(await conversation.view()).nonce}/k.watch"
        assert (await on.harness.task(started)).arguments == {"input": "b"}
        await on.harness.abort(started)


async def test_a_delivery_to_a_task_that_is_over_never_fails_its_sender(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    async def publish(api: ToolApi) -> str:
        await api.commit(key="publish", signals=[Send("task-nowhere", NEWS, "a", News(text="it rains"))])
        return (await api.signal("task-nowhere", NEWS, "a", News(text="it rains"))).answer

    async with stage(server, app_with(publish, "done"), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "go")

    assert (answer.end, answer.texts) == ("done", ["not_found"])


async def test_a_rerun_of_a_tool_delivers_nothing_twice(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    async def publish(api: ToolApi) -> str:
        answers = [(await api.signal("task-reader2", NEWS, "x", News(text="it rains"))).answer for _ in range(2)]
        answers.append((await api.signal("task-reader2", NEWS, "x", News(text="no"), delivery_id="another")).answer)
        return " ".join(answers)

    async with stage(server, app_with(publish, "done"), tmp_path) as on:
        reader = await on.harness.start_task(waiting(), "a", key="reader2")
        answer = await ask(on.harness.conversation(), "go")
        await on.harness.abort(reader.id)

    assert answer.texts == ["delivered delivered duplicate"]


async def test_an_input_that_a_tool_submits_is_answered_after_its_run(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    async def remind(api: ToolApi) -> str:
        first = await api.submit(api.conversation_id, "and now?", request_id="reminder")
        again = await api.submit(api.conversation_id, "and now?", request_id="reminder")
        return f"{first.status} {again.request_id}"

    async with stage(server, app_with(remind, "first", "second"), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation, "go")

        assert answer.texts == ["queued reminder"]
        assert (await conversation.submission("reminder").wait()).answer_text == "second"
