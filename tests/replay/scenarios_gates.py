"""Gated calls, hooks of a run, steers and owned conversations, played to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from tarry import SUBMISSION_SETTLED, App, Continue, DurableTask, Extension, Hooks, HookTask, Received, Sleep, Turn
from tarry.api import ToolApi
from tarry.core.protocol import RunSettings
from tarry.gates import DECISION, Decision, approvals
from tarry.hooks import HookApi, HookCall
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import ToolResult, tool
from tests.replay.studio import Studio
from tests.support.gating import Guard, Ledger, gate, gated_app, start_gated
from tests.support.held import HeldTool
from tests.support.parking import ANSWER, YES, Waits
from tests.support.stage import Stage
from tests.support.waiting import eventually

NIGHT = ANSWER.key("morning")


def everything(call: HookCall) -> bool:
    """What needs a person."""
    return True


async def night(call: HookCall, api: HookApi) -> Sleep | None:
    """A gate that waits for a word, whatever another one was told."""
    if isinstance(await api.read_signal(ANSWER, NIGHT.key), Received):
        return None
    return Sleep(signals=[NIGHT], until=timedelta(hours=8))


async def asked_at_two_gates(studio: Studio) -> None:
    """Allowed at one, which wakes it to be asked at the other; its result is heard of and replaced."""
    heard = gate(after=lambda call, result, api: ToolResult(f"heard: {result.text}"), name="ears")
    app = gated_app(Ledger().edit, approvals(everything), gate(night, name="night"), heard)
    async with studio.stage(app) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.decide(True, reason="fine")
        await call.waits_for(NIGHT)
        await call.update(NIGHT.key, YES, signal=ANSWER.name)
        await call.ends()


async def denied_at_its_gate(studio: Studio) -> None:
    async with studio.stage(gated_app(Ledger().edit, approvals(everything))) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.decide(False, reason="too risky")
        await call.ends()


async def decided_by_two_people(studio: Studio) -> None:
    """Allowed at its gate by one person, and answered in its sleep by another: its lists tell of both."""
    waits = Waits(Sleep(signals=[NIGHT], until=timedelta(hours=8)))
    async with studio.stage(gated_app(waits.tool, approvals(everything))) as on:
        call = await start_gated(on, "waits")
        key = (await call.asks()).keys[0].key
        await on.harness.signal(call.id, DECISION, key, Decision(allow=True, by="Ana", reason="fine"), by="Ana")
        await waits.ran(1)
        await eventually(call.view, lambda view: view.state == "sleeping")
        await on.harness.signal(call.id, ANSWER.name, NIGHT.key, YES, by="Ben")
        await call.ends()


async def expired_at_its_gate(studio: Studio) -> None:
    soon = approvals(everything, deadline=timedelta(seconds=1))
    async with studio.stage(gated_app(Ledger().edit, soon)) as on:
        await (await start_gated(on, "edit", path="a.txt")).ends()


async def stopped_at_its_gate(studio: Studio) -> None:
    async with studio.stage(gated_app(Ledger().edit, approvals(everything))) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.asks()
        await on.harness.abort(call.id)
        await call.ends()


async def waits_at_its_gate(studio: Studio) -> None:
    """Still open: what any later deploy may find."""
    async with studio.stage(gated_app(Ledger().edit, approvals(everything))) as on:
        await (await start_gated(on, "edit", path="a.txt")).asks()


async def asked_anew_by_a_deploy(studio: Studio) -> None:
    before, after = [gated_app(Ledger().edit, approvals(everything, name=name)) for name in ("one", "two")]
    async with studio.unserved_stage(before) as on:
        async with on.worker():
            call = await start_gated(on, "edit", path="a.txt")
            await call.asks()
        async with on.worker(after):
            await call.reask(after.registry.fingerprint)
            await call.asks(lambda view: view.keys[0].key.startswith("two:"))
            await call.decide(True)
            await call.ends()


async def turned_over_at_its_gate(studio: Studio) -> None:
    async with studio.stage(gated_app(Ledger().edit, approvals(everything))) as on:
        call = await start_gated(on, "edit", RunSettings(turnover_events=20), path="a.txt")
        await call.asks()
        for number in range(4):
            await call.update(f"early {number}", YES, signal=ANSWER.name)
        await call.decide(True)
        await call.ends()


async def judged_by_the_pass_that_it_wakes(studio: Studio) -> None:
    """By plain signal at one gate, after one that is refused and beside one that nobody awaits; then by update."""
    guard = Guard("go", "on", looks_at="early")
    async with studio.unserved_stage(gated_app(Ledger().edit, gate(guard))) as on:
        async with on.worker():
            call = await start_gated(on, "edit", path="a.txt")
            await call.waits_for(ANSWER.key("go"))
        await call.value("go", value={"text": 5})
        await call.value("early")
        await call.value("go")
        async with on.worker():
            await call.waits_for(ANSWER.key("on"))
            await call.update("on", YES, signal=ANSWER.name)
            await call.ends()


async def pass_ahead_that_counts_for_nothing(studio: Studio) -> None:
    """Something comes while it is made, and it is made anew; it sleeps, and the next one is stopped."""
    guard = Guard("go", "on", looks_at="early", held=(2, 4))
    async with studio.stage(gated_app(Ledger().edit, gate(guard, io=True))) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.waits_for(ANSWER.key("go"))
        await call.value("go")
        await guard.asked(2)
        await call.value("early")
        guard.go.set()
        await call.waits_for(ANSWER.key("on"))
        guard.go.clear()
        await call.value("on")
        await guard.asked(4)
        await call.handle.cancel()
        await call.ends()
        guard.go.set()


@tool(replay="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def deciding(name: str) -> DurableTask[str, dict[str, Any]]:
    """A task that decides at once, by what it was told."""
    task: DurableTask[str, dict[str, Any]] = DurableTask(name, str, dict[str, Any])
    decisions: dict[str, dict[str, Any]] = {"saw end": {"terminate": True}, "bad": {"continue": "do better"}}

    @task.phase
    def decide(told: str) -> dict[str, Any]:
        return decisions.get(told, {})

    return task


DECIDE = deciding("test.decide")


def hooked_app(*steps: Reply, hooks: Hooks) -> App:
    """An application with hooks of a run."""
    model = ScriptedModel.for_each_input(steps)
    return App(model=model, extensions=[Extension("test", [look], tasks=[DECIDE], hooks=hooks)])


def after_tools(turn: Turn) -> list[HookTask]:
    return [HookTask(DECIDE, result.text) for result in turn.results]


def on_yield(turn: Turn) -> Continue | list[HookTask]:
    return Continue("once more") if turn.text == "worse" else [HookTask(DECIDE, turn.text)]


async def ended_by_a_task_after_its_round(studio: Studio) -> None:
    steps = calls(call("look", what="on")), calls(call("look", what="end"), call("look", what="on"))
    app = hooked_app(*steps, hooks=Hooks(after_tools=after_tools))
    async with studio.conversation(app) as (_, conversation):
        await (await conversation.submit("go")).wait()


async def sent_back_before_its_answer_stands(studio: Studio) -> None:
    def answer(request: ModelRequest) -> Reply:
        return say({"go": "bad", "do better": "worse"}.get(request.messages[-1].text, "good"))

    model = ScriptedModel.for_each_input([answer])
    extension = Extension("test", [look], tasks=[DECIDE], hooks=Hooks(on_yield=on_yield))
    async with studio.conversation(App(model=model, extensions=[extension])) as (_, conversation):
        await (await conversation.submit("go")).wait()


async def gave_way_to_a_person(studio: Studio) -> None:
    """The task that would send the agent back waits, and so an input can come before it says so."""
    task: DurableTask[str, dict[str, Any]] = DurableTask("test.patient", str, dict[str, Any])

    @task.phase
    async def wait(told: str, api: ToolApi) -> Sleep | dict[str, Any]:
        return {"continue": "do better"} if api.wake else Sleep(signals=[ANSWER.key("go")])

    hooks = Hooks(on_yield=lambda turn: [HookTask(task, turn.text)] if turn.text == "bad" else None)
    model = ScriptedModel.for_each_input([lambda request: say(request.messages[-1].text)])
    app = App(model=model, extensions=[Extension("test", signals=[ANSWER], tasks=[task], hooks=hooks)])
    async with studio.conversation(app) as (on, conversation):
        first = await conversation.submit("bad")
        task_id = await eventually(lambda: sleeping(on))
        second = await conversation.submit("good")
        await on.harness.signal(task_id, ANSWER.name, "go", YES)
        await first.wait()
        await second.wait()


async def stopped_while_a_task_of_its_hooks_waits(studio: Studio) -> None:
    task: DurableTask[str, None] = DurableTask("test.endless", str, type(None))

    @task.phase
    def wait(told: str) -> Sleep:
        return Sleep(signals=[ANSWER.key("go")])

    hooks = Hooks(after_tools=lambda turn: [HookTask(task, "wait")])
    model = ScriptedModel([calls(call("look", what="on"))])
    app = App(model=model, extensions=[Extension("test", [look], [ANSWER], [task], hooks=hooks)])
    async with studio.conversation(app) as (on, conversation):
        submission = await conversation.submit("go")
        await eventually(lambda: sleeping(on))
        await conversation.abort()
        await submission.wait()


async def sleeping(on: Stage) -> str:
    """The one task of the stage that sleeps; empty when none does."""
    return "".join([item.id async for item in on.harness.work() if item.state == "sleeping"][:1])


async def steered_at_a_boundary(studio: Studio) -> None:
    """Three steers at three boundaries; the run turns over between them."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), calls(call("look", what="b")), say("done")])
    app = App(model=model, extensions=[Extension("test", [held.tool, look])])
    async with studio.conversation(app, turnover_events=20) as (_, conversation):
        first = await conversation.submit("go")
        await held.begun()
        steers = [await conversation.submit(text, when_busy="steer") for text in ("s1", "s2", "s3")]
        held.go.set()
        for submission in (first, *steers):
            await submission.wait()


async def terminated_with_a_steer_placed(studio: Studio) -> None:
    held, again = HeldTool(), HeldTool("again")
    model = ScriptedModel([calls(call("work", what="a")), calls(call("again", what="b")), say("done"), say("done")])
    app = App(model=model, extensions=[Extension("test", [held.tool, again.tool])])
    async with studio.conversation(app) as (on, conversation):
        first = await conversation.submit("go")
        await held.begun()
        steers = [await conversation.submit(text, when_busy="steer") for text in ("s1", "s2")]
        held.go.set()
        await again.begun()
        run_id = (await conversation.view()).open_generation or ""
        await on.client.get_workflow_handle(run_id).terminate()
        again.go.set()
        for submission in (first, *steers):
            await submission.wait()


@tool(replay="safe")
async def delegate(task: str, api: ToolApi) -> Sleep | str:
    """Give a subagent a task."""
    found = await api.read_signal(SUBMISSION_SETTLED, "answered")
    if isinstance(found, Received):
        return found.value.answer_text or found.value.reason
    child = await api.own_conversation("sub")
    await api.submit(child, task, request_id="task", notify="answered")
    return Sleep(signals=[SUBMISSION_SETTLED.key("answered")])


def delegating() -> App:
    def first(request: ModelRequest) -> Reply:
        last = request.messages[-1].text
        return calls(call("delegate", task="sub")) if last == "root" else calls(call("look", what=last))

    model = ScriptedModel.for_each_input([first, lambda request: say(f"heard {request.messages[-1].text}")])
    return App(model=model, extensions=[Extension("test", [delegate, look])])


async def subagent_that_answers(studio: Studio) -> None:
    async with studio.stage(delegating()) as on:
        await (await on.harness.conversation().submit("root")).wait()


GATES: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        asked_at_two_gates,
        denied_at_its_gate,
        decided_by_two_people,
        expired_at_its_gate,
        stopped_at_its_gate,
        waits_at_its_gate,
        asked_anew_by_a_deploy,
        turned_over_at_its_gate,
        judged_by_the_pass_that_it_wakes,
        pass_ahead_that_counts_for_nothing,
        ended_by_a_task_after_its_round,
        sent_back_before_its_answer_stands,
        gave_way_to_a_person,
        stopped_while_a_task_of_its_hooks_waits,
        steered_at_a_boundary,
        terminated_with_a_steer_placed,
        subagent_that_answers,
    )
}
