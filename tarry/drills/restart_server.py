"""The drill that kills the server, and starts it again on its file."""

from __future__ import annotations

from datetime import UTC, datetime

from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground
from tarry.testing.waiting import eventually

PARKED = 'TarryState="sleeping"'


@drill("restart-server", app=DESK)
async def restart_server(on: Ground) -> None:
    """The server is killed and started again on its file: parked work and deadlines are there, workers come back."""
    await on.worker()
    seconds = on.seconds(40, 10)
    party = await begin(on, "party", "ask ana | say Done.")
    picnic = await begin(on, "picnic", f"ask ben {seconds} | say Done.")
    other, call = await parked(on, "picnic", "ben"), await parked(on, "party")
    until = (await on.harness.task(other)).until
    assert until is not None

    async with on.step("Kill the server", expected="nobody answers; the worker waits for it") as step:
        step.did(f"SIGKILL to the server ({on.server.pid})")
        await on.server.kill()
        ran = await step.temporal("workflow", "list", "--query", PARKED, code=1)
        step.found(ran.err.splitlines()[-1].strip())
        step.check("the worker lives", on.workers[0].pid is not None, True)

    async with on.step("Let ben's deadline pass meanwhile", expected="it passes by the clock, server or not") as step:
        step.did(f"waited until {until:%H:%M:%S}")
        await eventually(_now, lambda now: now > until)
        step.found(f"it is {datetime.now(UTC):%H:%M:%S}")

    async with on.step(
        "Start it again on its file",
        expected="ana's question is there, and ben's has expired: both as if nothing had been",
    ) as step:
        step.did("started the server with the same --db-filename")
        await on.server.start()
        step.check("the picnic", (await on.settled(picnic)).answer_text, "Done.")
        step.check("its model read", await on.results("picnic"), ["ben did not answer in time"])
        ran = await step.temporal("workflow", "list", "--query", PARKED, "-o", "json")
        step.check("parked", [row["execution"]["workflowId"] for row in ran.json], [call])

    async with on.step("Answer ana's question", expected="the same worker, never restarted, goes on") as step:
        value = answer("ana", "up to 500")
        await step.temporal("workflow", "signal", "--workflow-id", call, "--name", ANSWER, "--input", value)
        step.check("the party", (await on.settled(party)).answer_text, "Done.")
        step.check("outside", effects(on, "party"), ["asked ana", "noted what ana said"])
        step.check("workers that were started", len(on.workers), 1)


async def _now() -> datetime:
    return datetime.now(UTC)
