"""Recovery drills: real processes are killed, and real commands given, on a server that is there for nothing else.

A drill is a coroutine in a file of its own, `tarry/drills/<name>.py`, and a line in `tarry/drills/registry.py`:

    @drill("list-parked")
    async def list_parked(on: Ground) -> None:
        \"\"\"What waits is listed by Temporal's own command.\"\"\"
        await on.worker()
        task_id = await on.parked(await on.submit("unsafe park"))
        async with on.step("List what is parked", expected="the one call") as step:
            ran = await step.temporal("workflow", "list", "--query", 'TarryState="sleeping"', "-o", "json")
            step.check("listed", [row["execution"]["workflowId"] for row in ran.json], [task_id])

`Ground` (`kit/ground.py`) is all that it stands on: a server, workers, a tracker that counts effects outside, points at
which workers hold. A step tells what it did, what it expected and what it found (`kit/step.py`). A check that fails
fails the drill, which goes on; an exception ends it. Whatever a drill started is ended when it is over. What its
workers serve by default, and which inputs that understands, is `kit/app.py`.

Nothing here imports the engine: workers are `python -m workers.worker`, the commands are `temporal` and `tarry`.
"""
