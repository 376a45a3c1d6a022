"""The drill that kills a worker with work at several places, and starts another."""

from __future__ import annotations

from tarry.drills.desk.ground import answer, begin, state
from tarry.drills.kit.app import AFTER, DONE, NEWS
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import BEGUN, Ground
from tarry.drills.kit.model import MID_STREAM

RUNNING = 'TarryState="running" AND TarryTool IS NOT NULL AND ExecutionStatus="Running"'


@drill("kill-worker")
async def kill_worker(on: Ground) -> None:
    """A worker is killed in the middle of things: what is certain goes on, what is in doubt is said to be."""
    worker = await on.worker()
    streaming = await begin(on, "streaming", "say All is well.", hold_at=[MID_STREAM])
    before = await begin(on, "before", "unsafe", hold_at=[BEGUN])
    after = await begin(on, "after", "unsafe", hold_at=[AFTER])
    waiting = await begin(on, "waiting", "unsafe park")
    for submission in (streaming, before, after):
        await on.held(submission)
    task_id = await on.parked(waiting)

    async with on.step(
        "Kill the only worker: in a stream, before an effect, after one, beside a call that waits",
        expected="the server goes on, and lists the two calls that ran",
    ) as step:
        step.did(f"SIGKILL to the worker ({worker.pid})")
        await worker.kill()
        ran = await step.temporal("workflow", "list", "--query", RUNNING, "-o", "json")
        ids = [row["execution"]["workflowId"] for row in ran.json]
        step.check(
            "calls that ran, of the conversations", sorted(id.partition("~")[0] for id in ids), ["after", "before"]
        )
        step.check(
            "tickets at the tracker, before and after",
            [await _tickets(on, "before"), await _tickets(on, "after")],
            [0, 1],
        )

    async with on.step("Answer the call that waits", expected="the server keeps the value, with no worker up") as step:
        value = answer(DONE, "yes")
        await step.temporal("workflow", "signal", "--workflow-id", task_id, "--name", NEWS.name, "--input", value)
        step.check("the call", await state(on, task_id), "sleeping")

    async with on.step("Start another worker", expected="all go on: asked again, in doubt, in doubt, woken") as step:
        step.did("started a worker")
        await on.worker()
        step.check("in the stream: the answer", (await on.settled(streaming)).answer_text, "All is well.")
        for submission, place, tickets in ((before, "before its effect", 0), (after, "after its effect", 1)):
            await on.settled(submission)
            name = submission.conversation_id
            step.check(f"{place}: the model read", await on.results(name), ["interrupted"])
            step.check(f"{place}: tickets", await _tickets(on, name), tickets)
        await on.settled(waiting)
        step.check("while it waited: tickets", await _tickets(on, "waiting"), 1)


async def _tickets(on: Ground, name: str) -> int:
    return len(await on.tickets(name))
