"""Hooks of a run: tasks after a round, a review before an answer stands, steers at the boundary (spec §6.2, §6.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tarry import App, Continue, DurableTask, Extension, Hooks, HookTask, ToolApi, Turn
from tarry.client import Conversation
from tarry.core.messages import UserMessage
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.held import HeldTool
from tests.support.stage import kinds, stage
from tests.support.waiting import eventually


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def deciding(name: str, decision: Any) -> DurableTask[dict[str, Any], Any]:
    task: DurableTask[dict[str, Any], Any] = DurableTask(name, dict[str, Any], object)

    @task.phase
    def decide(told: dict[str, Any]) -> Any:
        return decision(told)

    return task


def app_with(model: ScriptedModel, hooks: Hooks, *tasks: DurableTask[Any, Any]) -> App:
    return App(model=model, extensions=[Extension("test", [look], tasks=tasks, hooks=hooks)])


def users(entries: Sequence[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


async def test_a_task_after_a_round_ends_the_run_with_the_response_that_made_the_calls(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    stop = deciding("app.stop", lambda told: {"terminate": told["results"] == ["saw a"]})

    def after_tools(turn: Turn) -> list[HookTask]:
        return [HookTask(stop, {"results": [result.text for result in turn.results]})]

    model = ScriptedModel([Reply("looking", calls=(call("look", what="a"),)), say("never asked")])
    async with stage(server, app_with(model, Hooks(after_tools=after_tools), stop), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text, answer.kinds) == ("done", "looking", ["user", "assistant", "tool_result"])


async def test_a_round_whose_tasks_say_nothing_goes_on(server: EmbeddedServer, tmp_path: Path) -> None:
    quiet = deciding("app.quiet", lambda told: None)
    model = ScriptedModel([calls(call("look", what="a")), say("done")])
    hooks = Hooks(after_tools=lambda turn: [HookTask(quiet, {}), HookTask(quiet, {})])
    async with stage(server, app_with(model, hooks, quiet), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text) == ("done", "done")


async def test_a_review_sends_the_agent_back_until_it_is_content(server: EmbeddedServer, tmp_path: Path) -> None:
    review = deciding("app.review", lambda told: {} if told["text"] == "good" else {"continue": "do better"})
    model = ScriptedModel([say("bad"), say("good")])
    hooks = Hooks(on_yield=lambda turn: [HookTask(review, {"text": turn.text})])
    async with stage(server, app_with(model, hooks, review), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text) == ("done", "good")
    assert users(answer.entries) == ["go", "do better"]


async def test_the_first_task_that_continues_counts_in_the_order_of_creation(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    tasks = [deciding(f"app.t{n}", lambda told: told["answer"]) for n in range(3)]
    answers: list[dict[str, Any]] = [{}, {"continue": "second"}, {"continue": "third"}]

    def on_yield(turn: Turn) -> list[HookTask]:
        return [HookTask(task, {"answer": answers.pop(0)}) for task in tasks] if answers else []

    model = ScriptedModel([say("one"), say("two")])
    async with stage(server, app_with(model, Hooks(on_yield=on_yield), *tasks), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert users(answer.entries) == ["go", "second"]


async def test_an_input_of_a_person_wins_over_a_continuation_and_gets_a_run_of_its_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel([say("one"), say("two")])
    held = HeldTool()

    def wait(told: dict[str, Any]) -> Any:
        held.go.wait()
        return {"continue": "do better"} if told["text"] == "one" else {}

    patient = deciding("app.patient", wait)
    hooks = Hooks(on_yield=lambda turn: [HookTask(patient, {"text": turn.text})])
    async with stage(server, app_with(model, hooks, patient), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await eventually(lambda: _at(on, conversation, "hooks"))
        second = await conversation.submit("second")
        held.go.set()
        ends = [(await submission.wait()).answer_text for submission in (first, second)]
        entries = await conversation.transcript()

    assert ends == ["one", "two"]
    assert users(entries) == ["first", "second"]
    assert [entry.note for entry in entries if entry.kind == "note"] == [
        "A continuation gave way to an input that had come."
    ]


async def _at(on: Any, conversation: Conversation, phase: str) -> bool:
    view = await conversation.view()
    if view.open_generation is None:
        return False
    found = await on.client.get_workflow_handle(view.open_generation).query("tarry.view")
    return bool(found["phase"] == phase)


async def test_a_continuation_at_once_needs_no_task(server: EmbeddedServer, tmp_path: Path) -> None:
    def on_yield(turn: Turn) -> Continue | None:
        return Continue("again") if turn.text == "one" else None

    model = ScriptedModel([say("one"), say("two")])
    async with stage(server, app_with(model, Hooks(on_yield=on_yield)), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.text, users(answer.entries)) == ("two", ["go", "again"])


async def test_a_hook_of_a_run_that_raises_is_noted_and_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    def broken(turn: Turn) -> None:
        raise ValueError("broken hook")

    model = ScriptedModel([calls(call("look", what="a")), say("done")])
    hooks = Hooks(after_tools=broken, on_yield=broken)
    async with stage(server, app_with(model, hooks), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text) == ("done", "done")
    assert [note.split(" failed")[0] for note in answer.notes] == [
        "hook after_tools of test",
        "hook on_yield of test",
    ]


async def test_a_steer_is_placed_before_the_next_request_and_settles_with_the_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    requests: list[list[str]] = []

    def answer(request: ModelRequest) -> Reply:
        requests.append([message.text for message in request.messages if isinstance(message, UserMessage)])
        return say("done")

    model = ScriptedModel([calls(call("work", what="a")), answer])
    app = App(model=model, extensions=[Extension("test", [held.tool])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        steer = await conversation.submit("but quickly", when_busy="steer")
        held.go.set()
        ends = [await submission.wait() for submission in (first, steer)]
        entries = await conversation.transcript()

    assert [(end.status, end.answer_text) for end in ends] == [("done", "done"), ("done", "done")]
    assert requests == [["first", "but quickly"]]
    assert kinds(entries) == ["user", "assistant", "tool_result", "user", "assistant"]


async def test_a_steer_that_comes_too_late_for_a_boundary_gets_a_run_of_its_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel.for_each_input([say("one")])
    async with stage(server, App(model=model), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        steer = await conversation.submit("second", when_busy="steer")
        ends = [(await submission.wait()).answer_text for submission in (first, steer)]

    assert ends == ["one", "one"]


async def test_a_steer_that_a_stop_overtook_ends_with_it_and_stands_behind_the_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel([calls(call("work", what="a")), say("next")])
    app = App(model=model, extensions=[Extension("test", [held.tool])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        steer = await conversation.submit("but quickly", when_busy="steer")
        await conversation.abort()
        ends = [await submission.wait() for submission in (first, steer)]
        later = await (await conversation.submit("later")).wait()
        entries = await conversation.transcript()

    assert [(end.status, end.reason) for end in ends] == [("unanswered", "aborted")] * 2
    assert later.answer_text == "next"
    assert kinds(entries) == ["user", "assistant", "tool_result", "user", "user", "assistant"]
    assert users(entries) == ["first", "but quickly", "later"]


async def test_two_steers_are_placed_one_at_each_boundary_in_order(server: EmbeddedServer, tmp_path: Path) -> None:
    held, again = HeldTool(), HeldTool("again")
    again.go.set()
    model = ScriptedModel([calls(call("work", what="a")), calls(call("again", what="b")), say("done")])
    app = App(model=model, extensions=[Extension("test", [held.tool, again.tool])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        for text in ("s1", "s2"):
            await conversation.submit(text, when_busy="steer")
        held.go.set()
        await first.wait()
        entries = await conversation.transcript()

    assert [entry.message.text for entry in entries if entry.kind == "user" and entry.message] == ["first", "s1", "s2"]
    assert kinds(entries)[2:5] == ["tool_result", "user", "assistant"]


async def test_a_task_after_a_round_may_steer_its_own_run(server: EmbeddedServer, tmp_path: Path) -> None:
    steering: DurableTask[str, None] = DurableTask("app.steer", str, type(None))

    @steering.phase
    async def steer(generation_id: str, api: ToolApi) -> None:
        await api.submit(api.conversation_id, "go on", request_id=f"steer {generation_id}", when_busy="steer")

    def after_tools(turn: Turn) -> list[HookTask]:
        return [HookTask(steering, turn.generation_id)]

    model = ScriptedModel([calls(call("look", what="a")), say("done")])
    async with stage(server, app_with(model, Hooks(after_tools=after_tools), steering), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert users(answer.entries) == ["go", "go on"]
    assert answer.text == "done"
