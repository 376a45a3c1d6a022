"""Trees of agents, played to be kept: whatever a tree is asked and told, over several runs of it, to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.client import WorkflowExecutionStatus

from tarry.core.subagents.protocol import COLLECT, RESTED, STOPPED, WANTS, ReadUpdates, StopBelow, TurnNotice
from tests.replay.studio import Studio
from tests.support.agent_trees import WORK, Grove, Work, children_app
from tests.support.waiting import eventually


async def agents_asked_and_told(studio: Studio) -> None:
    """Starts, messages, follow-ups, reads and interrupts, within two permits and over turns of the tree's run."""
    work = Work()
    async with studio.stage(children_app(work), turnover_events=50) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=2)
        await grove.tree.reload(await grove.tree.snapshot())
        for name in "abc":
            await grove.start(name, WORK + name)
        await work.has_begun("a", "b")
        await grove.tree.read(ReadUpdates(caller=grove.caller(), key="waits"))
        await grove.send("c", "hello")
        await grove.follow_up("a", "and this")
        await grove.interrupt("b")
        await work.has_begun("c")
        await _rest_and_wake(grove)
        work.let()
        await _read_twice(grove)
        await grove.completions(3)
        await grove.follow_up("c")
        await grove.completions(1)


async def _rest_and_wake(grove: Grove) -> None:
    """As a run tells it that parks, and is woken."""
    row = await grove.row("/root/c")
    view = await grove.on.harness.conversation(row.agent_id).view()
    handle = grove.on.client.get_workflow_handle(grove.tree.id)
    notice = TurnNotice(conversation_id=row.agent_id, generation_id=view.open_generation or "", number=1)
    await handle.signal(RESTED, notice)
    await grove.becomes("/root/c", "waiting")
    await handle.signal(WANTS, notice)
    await grove.becomes("/root/c", "running")


async def _read_twice(grove: Grove) -> None:
    """By a call that is over without a result, then by another one."""
    reader = grove.caller()
    await eventually(lambda: grove.read(reader), lambda told: bool(told.completions))


async def agents_stopped_and_collected(studio: Studio) -> None:
    """A Stop of the root, a cancel of the tree, and its end with the root's."""
    work = Work()
    async with studio.stage(children_app(work)) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=1)
        handle = on.client.get_workflow_handle(grove.tree.id)
        for number, stop in enumerate(("stopped", "cancelled", "collected"), start=1):
            await grove.start(stop, WORK + stop, by=grove.caller(run=number))
            await grove.start(f"{stop}-queued", by=grove.caller(run=number))
            await work.has_begun(stop)
            if stop == "stopped":
                await handle.signal(STOPPED, StopBelow(conversation_id=grove.root, run=number))
            elif stop == "cancelled":
                await handle.cancel()
            else:
                await handle.signal(COLLECT)
                break
            await grove.completions(2)

        async def status() -> WorkflowExecutionStatus | None:
            return (await handle.describe()).status

        await eventually(status, lambda found: found == WorkflowExecutionStatus.COMPLETED)


async def agent_ended_by_force(studio: Studio) -> None:
    """The conversation of one that works is terminated: its run has the tree looked after, and the next one begins."""
    work = Work()
    async with studio.stage(children_app(work)) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=1)
        child = await grove.start("a", WORK + "a")
        await work.has_begun("a")
        await grove.start("b")
        await on.client.get_workflow_handle(child.agent_id).terminate()
        await grove.completions(2)


async def agent_begun_by_what_joined(studio: Studio) -> None:
    """A message joins a turn that is over by then: the run that it begins asks for a permit first."""
    work = Work()
    async with studio.stage(children_app(work)) as on:
        grove = Grove(on, work)
        await grove.root_it()
        await grove.begin(limit=1)
        child = await grove.start("a")
        await grove.completions(1)
        late = await on.harness.conversation(child.agent_id).submit("late", request_id=f"{child.turn_id}.2")
        await late.wait()


TREES: dict[str, Callable[[Studio], Awaitable[None]]] = {
    "agents-asked-and-told": agents_asked_and_told,
    "agents-stopped-and-collected": agents_stopped_and_collected,
    "agent-ended-by-force": agent_ended_by_force,
    "agent-begun-by-what-joined": agent_begun_by_what_joined,
}
