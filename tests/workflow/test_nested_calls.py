"""Nested calls and durable tasks as children: keys, waits, results, and their end with their owner (spec §4.9)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tarry import App, DurableTask, Extension, Received, Signal, Sleep, ToolApi, ToolResult, Wait
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.nesting_app import NEWS, News, app_with, deliver, view_of
from tests.support.stage import stage
from tests.support.waiting import eventually
from workflows import supervise


async def test_nested_results_reach_their_caller_and_not_the_model(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[Any] = []

    @tool
    async def outer(api: ToolApi) -> str:
        for name, arguments in (("report", {"text": "hi"}), ("fails", {}), ("nowhere", {}), ("report", {"no": 1})):
            seen.append(await api.execute_tool(name, arguments))
        return "outer"

    async with stage(server, app_with(outer), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.texts == ["outer"]
    assert [result.code for result in seen] == ["", "tool_error", "tool_unavailable", "invalid_arguments"]
    assert [result.is_error for result in seen] == [False, True, True, True]
    assert seen[0].structured == {"text": "hi"}


async def test_a_wait_on_any_wakes_with_the_first_end_and_keys_find_the_same_calls(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    wakes: list[str] = []
    ids: dict[str, str] = {}

    @tool(replay="safe")
    async def both(api: ToolApi) -> Wait | str:
        started = {
            topic: await api.execute_tool("research", {"topic": topic}, key=topic, wait=False) for topic in ("a", "b")
        }
        ids.update({topic: nested.task_id for topic, nested in started.items()})
        done = {*(api.checkpoint or []), *(api.wake.ended if api.wake else ())}
        wakes.append(str(sorted(topic for topic, nested in started.items() if nested.task_id in done)))
        if waiting := [nested.task_id for nested in started.values() if nested.task_id not in done]:
            return Wait(waiting, "any", checkpoint=sorted(done))
        return " & ".join([(await nested.result()).text for nested in started.values()])

    async with stage(server, app_with(both), tmp_path) as on:
        submission = await on.harness.conversation("nested-any").submit("go")
        await eventually(lambda: _value(ids.get("b")))
        assert await deliver(on, ids["b"], "b") == "delivered"
        await eventually(lambda: _value(len(wakes) == 2))
        assert await deliver(on, ids["a"], "a") == "delivered"
        await submission.wait()
        transcript = await on.harness.conversation("nested-any").transcript()

    assert wakes == ["[]", "['b']", "['a', 'b']"]
    assert [entry.message.text for entry in transcript if entry.kind == "tool_result" and entry.message] == [
        "a: it rains & b: it rains"
    ]


async def _value(found: Any) -> Any:
    return found


async def test_a_failure_ends_a_wait_that_fails_fast_and_what_still_lives_is_stopped_with_its_owner(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ids: list[str] = []

    @tool(replay="safe")
    async def both(api: ToolApi) -> Wait | str:
        waits = await api.execute_tool("research", {"topic": "never"}, key="waits", wait=False)
        broken = await api.execute_tool("fails", {}, key="broken", wait=False)
        ids.append(waits.task_id)
        if api.wake is None:
            return Wait([waits.task_id, broken.task_id], "fail_fast")
        return f"{[broken.task_id] == list(api.wake.ended)} {(await broken.result()).code}"

    async with stage(server, app_with(both), tmp_path) as on:
        answer = await ask(on.harness.conversation())
        ended = await on.client.get_workflow_handle(ids[0]).result()

    assert answer.texts == ["True tool_error"]
    assert ended["code"] == "aborted"


async def test_a_key_with_other_arguments_and_a_missing_key_after_a_wake_are_errors(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    problems: list[str] = []

    @tool(replay="safe")
    async def outer(api: ToolApi) -> Sleep | str:
        await api.execute_tool("report", {"text": "hi"}, key="k")
        for arguments, key in (({"text": "other"}, "k"), ({"text": "hi"}, None if api.wake else "k")):
            try:
                await api.execute_tool("report", arguments, key=key)
            except ValueError as error:
                problems.append(str(error))
        return "done" if api.wake else Sleep(until=timedelta(0))

    async with stage(server, app_with(outer), tmp_path) as on:
        await ask(on.harness.conversation())

    conflict = "key 'k' was used for another task or input"
    assert problems == [conflict, conflict, problems[2]]
    assert "give the call a key" in problems[2]


async def test_a_result_that_breaks_the_declared_output_is_an_error_to_the_caller_and_a_remark_to_the_model(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool(output=News)
    def wrong() -> ToolResult:
        return ToolResult("fine", structured={"text": 7})

    @tool
    async def outer(api: ToolApi) -> str:
        return (await api.execute_tool("wrong", {})).code

    model = ScriptedModel([calls(call("outer"), call("wrong")), say("done")])
    app = App(model=model, extensions=[Extension("test", [outer, wrong])])
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.codes == ["", ""]
    assert answer.texts[0] == "invalid_structured_output"
    assert "fine" in answer.texts[1]
    assert "does not fit what it declares" in answer.texts[1]


async def test_a_child_that_is_terminated_from_outside_is_an_end_like_any_other(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ids: list[str] = []

    @tool(replay="safe")
    async def outer(api: ToolApi) -> Wait | str:
        nested = await api.execute_tool("research", {"topic": "never"}, key="k", wait=False)
        ids.append(nested.task_id)
        if api.wake is None:
            return Wait([nested.task_id])
        return (await nested.result()).code

    async with stage(server, app_with(outer), tmp_path) as on:
        submission = await on.harness.conversation("nested-killed").submit("go")
        await eventually(lambda: _value(bool(ids)))
        await eventually(lambda: view_of(on, ids[0]), lambda found: found is not None and found.state == "sleeping")
        await on.client.get_workflow_handle(ids[0]).terminate()
        await submission.wait()
        entries = await on.harness.conversation("nested-killed").transcript()

    assert [e.message.text for e in entries if e.kind == "tool_result" and e.message] == ["aborted"]


async def test_a_task_waits_for_its_child_task_and_reads_its_outcome(server: EmbeddedServer, tmp_path: Path) -> None:
    child: DurableTask[str, str] = DurableTask("app.child", str, str)
    parent: DurableTask[str, str] = DurableTask("app.parent", str, str)

    @child.phase
    def shout(text: str) -> str:
        return text.upper()

    @parent.phase
    async def begin(text: str, api: ToolApi) -> Wait | str:
        task = await api.create_task(child, text, key="child")
        if api.wake is None:
            return Wait([task.task_id], "all_settled")
        return f"{(await task.outcome()).result}!"

    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[child, parent])])
    async with stage(server, app, tmp_path) as on:
        assert (await (await on.harness.start_task(parent, "hi")).outcome()).result == "HI!"


def waiting_on(name: str, policy: Any = "all_settled") -> DurableTask[list[str], str]:
    """Waits for the tasks whose ids are its input."""
    task: DurableTask[list[str], str] = DurableTask(name, list[str], str)

    @task.phase
    def begin(others: list[str], api: ToolApi) -> Wait | str:
        return Wait(others, policy) if api.wake is None else " ".join(sorted(api.wake.ended))

    return task


async def test_a_task_that_is_no_child_tells_who_waits_for_it_and_one_that_is_over_need_not(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits, parks = waiting_on("app.waits"), waiting_on("app.parks")
    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[waits, parks])])
    async with stage(server, app, tmp_path) as on:
        first = await on.harness.start_task(parks, ["task-nobody"], key="over-at-once")
        await first.outcome()
        second = await on.harness.start_task(parks, [f"{first.id}-that-never-was", first.id], key="over-soon")
        third = await on.harness.start_task(waits, [second.id, first.id], key="third")

        assert (await third.outcome()).result == f"{first.id} {second.id}"


async def test_other_tasks_can_be_waited_for_by_all_settled_only_and_never_in_a_circle(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits, greedy = waiting_on("app.waits"), waiting_on("app.greedy", "any")
    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[waits, greedy])])
    async with stage(server, app, tmp_path) as on:
        wrong = await (await on.harness.start_task(greedy, ["task-circle-a"])).outcome()
        itself = await (await on.harness.start_task(waits, ["task-itself"], key="itself")).outcome()
        outer = await on.harness.start_task(waits, ["task-circle-b", "task-circle-never"], key="circle-a")
        # Started only now, so that the first one takes it for over; it waits for the third.
        inner = await on.harness.start_task(waits, [outer.id], key="circle-c")
        ended = await outer.outcome(), await inner.outcome()

    assert "is no child of this task: wait for it with all_settled" in wrong.error
    assert "is this task or awaits it" in itself.error
    assert [outcome.status for outcome in ended] == ["completed", "completed"]


async def test_a_wait_that_closes_a_circle_is_refused_and_names_it(server: EmbeddedServer, tmp_path: Path) -> None:
    """The first waits for a child of the second, and the second for the first."""
    go = Signal("app.go", 1, str)
    second: DurableTask[None, str] = DurableTask("app.second", type(None), str)

    @second.phase
    async def begin(_: None, api: ToolApi) -> Sleep | Wait | str:
        if api.wake is None:
            return Sleep(signals=[go.key("go")])
        found = await api.read_signal(go, "go")
        assert isinstance(found, Received)
        return Wait([found.value])

    waits = waiting_on("app.waits")
    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", signals=[go], tasks=[waits, second])])
    async with stage(server, app, tmp_path) as on:
        two = await on.harness.start_task(second, None, key="circle-two")
        one = await on.harness.start_task(waits, [two.id], key="circle-one")
        await eventually(lambda: view_of(on, one.id), lambda found: found is not None and found.state == "waiting")
        await eventually(lambda: view_of(on, two.id), lambda found: found is not None and found.state == "sleeping")
        await on.harness.signal(two.id, go, "go", one.id)

        assert f"closes a circle: {two.id} -> {one.id} -> {two.id}" in (await two.outcome()).error
        assert (await one.outcome()).result == two.id


async def test_a_child_whose_clean_up_hangs_has_less_time_than_its_owner(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "CLEANUP_SECONDS", 5.0)
    monkeypatch.setattr(supervise, "LEAST_CLEANUP_SECONDS", 1.0)
    cleaned: list[str] = []
    stuck: DurableTask[str, str] = DurableTask("app.stuck", str, str)

    @stuck.phase
    def begin(text: str) -> Sleep:
        return Sleep(signals=[NEWS.key("never")])

    @stuck.abort
    async def hangs(text: str) -> None:
        cleaned.append(text)
        await asyncio.Event().wait()

    @tool
    async def outer(api: ToolApi) -> str:
        ids.append((await api.create_task(stuck, "hi", key="stuck")).task_id)
        return "outer"

    ids: list[str] = []
    async with stage(server, app_with(outer, tasks=(stuck,)), tmp_path) as on:
        answer = await ask(on.harness.conversation())
        ended = await on.client.get_workflow_handle(ids[0]).result()

    assert answer.texts == ["outer"]
    assert (cleaned, ended["status"]) == (["hi"], "aborted")
    assert "had no success in time" in ended["error"]
