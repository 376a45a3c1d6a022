"""Busy conversations, played to be kept: writes, withdrawals, resets, hand-offs, and hooks after a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tarry import App, DurableTask, Extension, Hooks, HookTask, RunEnded, Sleep, ToolApi, ToolResult
from tarry.core.agent import Agent
from tarry.core.mail import STEER_KEY, STEERED
from tarry.core.protocol import SUBMIT, RunSettings, SubmitInput
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.replay.scenarios import reset
from tests.replay.scenarios_gates import sleeping
from tests.replay.studio import Studio
from tests.support.held import HeldModel, HeldTool
from tests.support.stage import app_of
from tests.support.waiting import eventually


@tool
def hand_off(words: str) -> ToolResult:
    """Leave the rest to the next run."""
    return ToolResult("handed off", handoff=words)


async def written_to_while_busy(studio: Studio) -> None:
    """Two rounds: after the first one writes and a steer are placed, after the second a reset that ends the run."""
    first, second = HeldTool("first"), HeldTool("second")

    def answer(request: ModelRequest) -> Reply:
        turns = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text != "go":
            return say("begun anew")
        return calls(call("second", what="b")) if turns else calls(call("first", what="a"))

    app = App(model=ScriptedModel([answer] * 9), extensions=[Extension("test", [first.tool, second.tool])])
    async with studio.conversation(app) as (_, conversation):
        await conversation.write("before it all")
        run = await conversation.submit("go")
        await first.begun()
        steer = await conversation.submit("hurry", when_busy="steer")
        cat = await conversation.submit("and the cat")
        writes = [await conversation.write("it rains"), await conversation.write("all is green", kind="user")]
        await cat.abort()
        first.go.set()
        await second.begun()
        later = await conversation.submit("what now?")
        writes.append(await conversation.reset("Nothing is left."))
        second.go.set()
        for submission in (run, steer, cat, later, *writes):
            await submission.wait()


async def answered_together(studio: Studio) -> None:
    """A steer and a follow-up that a hand-off leaves; then all that waits, by the mode that it came with."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a"), call("hand_off", words="go on")), say("fine")])
    app = App(model=model, extensions=[Extension("test", [held.tool, hand_off])])
    async with studio.conversation(app, steering_mode="all", follow_up_mode="all") as (_, conversation):
        submissions = [await conversation.submit("go")]
        await held.begun()
        submissions += [await conversation.submit(text) for text in ("f1", "f2")]
        submissions.append(await conversation.submit("s1", when_busy="steer"))
        held.go.set()
        for submission in submissions:
            await submission.wait()


async def told_after_its_run(studio: Studio) -> None:
    """The task of a hook starts beside the next run; a hook that raises is noted."""
    done: list[str] = []
    task: DurableTask[str, None] = DurableTask("test.tell", str, type(None))

    @task.phase
    def tell(answer: str) -> None:
        done.append(answer)

    def after_run(ended: RunEnded) -> list[HookTask]:
        if ended.answer == "bad":
            raise ValueError("no")
        return [HookTask(task, ended.answer or ended.reason)]

    async def told() -> list[str]:
        return done

    model = ScriptedModel.for_each_input([lambda request: say(request.messages[-1].text)])
    app = App(model=model, extensions=[Extension("test", tasks=[task], hooks=Hooks(after_run=after_run))])
    async with studio.conversation(app) as (_, conversation):
        for text in ("good", "bad", "fine"):
            await (await conversation.submit(text)).wait()
        await eventually(told, lambda found: len(found) == 2)
        await eventually(conversation.transcript, lambda found: any(entry.kind == "note" for entry in found))


async def woken_by_a_steer(studio: Studio) -> None:
    """A write leaves a call parked that hears of steers, and the steer after it wakes it."""

    @tool(replay="safe", hears_steers=True)
    def nap(api: ToolApi) -> str | Sleep:
        """Wait until somebody speaks."""
        return Sleep(signals=[STEERED.key(STEER_KEY)]) if api.wake is None else "woken"

    app = App(model=ScriptedModel([call("nap"), say("done")]), extensions=[Extension("test", [nap])])
    async with studio.conversation(app) as (on, conversation):
        run = await conversation.submit("go")
        await eventually(lambda: sleeping(on))
        await conversation.write("for the record")
        await (await conversation.submit("faster", when_busy="steer")).wait()
        await run.wait()


async def overtaken_by_a_stop(studio: Studio) -> None:
    """Steers, one with choices, a follow-up and a write are queued; what comes after the Stop is for the next run."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("fine")])
    app = App(model=model, models={"other": model}, extensions=[Extension("test", [held.tool])])
    async with studio.conversation(app) as (on, conversation):
        submissions = [await conversation.submit("go")]
        await held.begun()
        submissions.append(await conversation.submit("later"))
        submissions += [await conversation.submit(text, when_busy="steer") for text in ("s1", "s2")]
        chosen = RunSettings(agent=Agent(model="other"))
        steer = SubmitInput(content="s3", request_id="s3", when_busy="steer", settings=chosen)
        await on.client.get_workflow_handle(conversation.id).execute_update(SUBMIT, steer)
        submissions.append(await conversation.write("it rains"))
        await conversation.abort()
        held.go.set()
        submissions.append(await conversation.submit("again", when_busy="steer"))
        for submission in submissions:
            await submission.wait()


async def withdrawn_by_a_stop(studio: Studio) -> None:
    """The same, kept from when steers ended with a Stop as follow-ups do, and stood nowhere."""
    await overtaken_by_a_stop(studio)


async def forgotten_by_a_reset(studio: Studio) -> None:
    """A steer that the last round of the open run has placed comes again, by a reset without signals."""
    held = HeldTool()
    model = HeldModel(ScriptedModel([call("work", what="a"), say("fine"), say("fine")]))
    model.go.set()
    async with studio.conversation(app_of(model, held.tool)) as (_, conversation):
        submissions = [await conversation.submit("go")]
        await held.begun()
        model.go.clear()
        model.asked.clear()
        submissions.append(await conversation.submit("quickly", when_busy="steer"))
        held.go.set()
        await model.asked.wait()
        await reset(studio, conversation.id, "--reapply-exclude", "Signal")
        await eventually(conversation.view, lambda view: len(view.queued) == 1)
        model.go.set()
        for submission in submissions:
            await submission.wait()


BUSY: dict[str, Callable[[Studio], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        written_to_while_busy,
        answered_together,
        told_after_its_run,
        woken_by_a_steer,
        overtaken_by_a_stop,
        withdrawn_by_a_stop,
        forgotten_by_a_reset,
    )
}
