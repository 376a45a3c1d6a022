"""`tarry wake`: whether workers are needed, for people and for what switches them on and off."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Annotated

import typer

from tarry.cli import render
from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.client import Harness, ServerUnavailable, WakeCheck, WakePlan

_PAUSE = 2.0


def wake(
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and print each change, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Say whether workers are needed now, and when they must be back.

    No worker needs to be up. With --watch --json one object a line; that nothing is active is said when seen twice in a
    row, and a server that is away is waited for.
    """
    output = Output(as_json=as_json)
    return run_async(_watch(output) if watch else _wake(output))


async def _wake(output: Output) -> int:
    harness = await Harness.connect()
    _tell(output, harness, await harness.wake())
    return ExitCode.DONE


async def _watch(output: Output) -> int:
    harness = await Harness.connect()
    check = WakeCheck(harness.client, harness.settings.task_queue, harness.settings.workers)
    told: WakePlan | None = None
    # Ctrl-C is the ordinary end.
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            try:
                async for plan in check.watch():
                    if plan != told:
                        _tell(output, harness, plan)
                    told = plan
            except ServerUnavailable as error:
                output.complaint(str(error))
                await asyncio.sleep(_PAUSE)
    return ExitCode.DONE


def _tell(output: Output, harness: Harness, plan: WakePlan) -> None:
    if output.as_json:
        output.json({**plan.model_dump(mode="json"), "task_queue": harness.settings.task_queue})
    else:
        output.text(render.wake(plan, datetime.now(UTC)))
