"""What was begun before a guarded change, played to be kept, so that a guard that is forgotten is noticed (spec §22.4).

Each is played by today's code as it goes without the change: its guard says that the workflow was begun before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from unittest import mock

from temporalio.client import WorkflowExecutionStatus

from tarry.app import App, Extension
from tarry.core.protocol import SUBMIT
from tarry.core.subagents.protocol import RELOAD
from tarry.core.waiting import WATCH
from tarry.hooks import CallResult, HookApi, HookCall
from tarry.testing import ScriptedModel, call, calls, say
from tests.replay.scenarios import archived_in_a_commit, looked_up_while_stopped
from tests.replay.scenarios_agents import configured_by_a_steer
from tests.replay.scenarios_busy import answered_together, forgotten_by_a_reset
from tests.replay.scenarios_compaction import large_answer_stopped
from tests.replay.scenarios_gates import decided_by_two_people
from tests.replay.scenarios_tasks import adopted_child_that_failed_for_nobody
from tests.replay.studio import Studio
from tests.support.agent_trees import WORK, Grove, Work, children_app
from tests.support.gating import Ledger, gate, gated_app, start_gated
from tests.support.held import HeldTool
from tests.support.parking import Waits, start
from tests.support.stage import app_of
from tests.support.waiting import eventually
from workers.lost_sight import look
from workflows import patches
from workflows.patches import Patch

Play = Callable[[Studio], Awaitable[None]]


async def told_again_of_a_steer(studio: Studio) -> None:
    """A write, of which the run is told, and a steer after it."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("fine")])
    async with studio.conversation(app_of(model, held.tool)) as (_, conversation):
        submissions = [await conversation.submit("go")]
        await held.begun()
        submissions.append(await conversation.write("for the record"))
        submissions.append(await conversation.submit("faster", when_busy="steer"))
        held.go.set()
        for submission in submissions:
            await submission.wait()


async def watched_late(studio: Studio) -> None:
    """Who asks to be told of the end while hooks hear of it."""
    heard, go_on = threading.Event(), threading.Event()

    def after(call: HookCall, result: CallResult, api: HookApi) -> None:
        heard.set()
        go_on.wait(10)

    waits, ledger = Waits(), Ledger()
    app = gated_app(ledger.edit, gate(after=after, io=True), Extension("more", [waits.tool]))
    async with studio.stage(app) as on:
        watched = await start_gated(on, "edit", path="a")
        watcher = await start(on, waits.tool)
        await watcher.ends()
        await asyncio.to_thread(heard.wait)
        await on.client.get_workflow_handle(watched.id).signal(WATCH, watcher.id)
        go_on.set()
        await watched.ends()


async def begun_by_a_shell(studio: Studio) -> None:
    """A conversation whose input says nothing, with two inputs that wait for the end of a run."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("fine")])
    app = App(model=model, extensions=[Extension("test", [held.tool])])
    async with studio.conversation(app, follow_up_mode="all") as (on, conversation):
        started = {"content": "go", "request_id": "r0", "settings": on.settings.run_settings().model_dump()}
        await on.client.start_workflow(
            "tarry.conversation",
            id=conversation.id,
            task_queue=on.settings.task_queue,
            start_signal=SUBMIT,
            start_signal_args=[started],
        )
        await held.begun()
        later = [await conversation.submit(text) for text in ("one", "two")]
        held.go.set()
        await conversation.submission("r0").wait()
        for submission in later:
            await submission.wait()


async def signalled_when_full(studio: Studio) -> None:
    """Plain signals to an open run; how many are too many is for who replays it to say."""
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("fine")])
    async with studio.conversation(app_of(model, held.tool)) as (on, conversation):
        await conversation.submit("go")
        await held.begun()
        handle = on.client.get_workflow_handle(conversation.id)
        for number in range(3):
            await handle.signal(SUBMIT, {"content": "more", "request_id": f"r{number}"})
        await eventually(conversation.view, lambda view: len(view.queued) == 3)
        held.go.set()
        await conversation.submission("r2").wait()


async def reloaded_by_a_bare_object(studio: Studio) -> None:
    """A shell reloads a tree with nothing, which sets its one permit to as many as there are by default."""
    work = Work()
    async with studio.stage(children_app(work)) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=1)
        for name in "ab":
            await grove.start(name, WORK + name)
        await work.has_begun("a")
        await on.client.get_workflow_handle(grove.tree.id).signal(RELOAD, {})
        await work.has_begun("b")
        work.let()
        await grove.completions(2)


async def ended_by_force(studio: Studio) -> None:
    """The conversation of an agent that works is terminated; its tree learns of that when a worker looks."""
    work = Work()
    async with studio.stage(children_app(work)) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=1)
        child = await grove.start("a", WORK + "a")
        await work.has_begun("a")
        view = await on.harness.conversation(child.agent_id).view()
        run = on.client.get_workflow_handle(view.open_generation or "")
        await on.client.get_workflow_handle(child.agent_id).terminate()

        async def is_over() -> bool:
            return (await run.describe()).status != WorkflowExecutionStatus.RUNNING

        await eventually(is_over)
        await look(on.client, on.settings.task_queue)
        await grove.completions(1)


@contextlib.contextmanager
def before(patch: Patch) -> Iterator[None]:
    """Workflows of this process go as if they had been begun before that change."""
    ask = Patch.is_passed
    with mock.patch.object(Patch, "is_passed", lambda self: self.id != patch.id and ask(self)):
        yield


def _played_before(patch: Patch, play: Play) -> Play:
    async def played(studio: Studio) -> None:
        with before(patch):
            await play(studio)

    return played


_PLAYS: dict[Patch, Play] = {
    patches.MAIL: answered_together,
    patches.STEERS: told_again_of_a_steer,
    patches.LATE_WATCHERS: watched_late,
    patches.BY_BOUNDARY: begun_by_a_shell,
    patches.ARCHIVED_IN_COMMITS: archived_in_a_commit,
    patches.CHOICES_OF_STEERS: configured_by_a_steer,
    patches.STOPPED_LARGE: large_answer_stopped,
    patches.ROOM: signalled_when_full,
    patches.BARE_RELOADS: reloaded_by_a_bare_object,
    patches.LOOKED_AFTER: ended_by_force,
    patches.DECIDED: decided_by_two_people,
    patches.FORGOTTEN: forgotten_by_a_reset,
    patches.ADOPTED_ABORTS: adopted_child_that_failed_for_nobody,
    patches.LATE_LOOKUPS: looked_up_while_stopped,
}

BEFORE = {f"before-{patch.id}": _played_before(patch, play) for patch, play in _PLAYS.items()}
