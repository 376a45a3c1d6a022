"""What the workers of the matrix serve: the tools of all drills, with a gate before and a wrapper around each of them.

Both hold at points of their own, so that a worker can be killed where no code of a tool is.
"""

from __future__ import annotations

from typing import Any

from tarry.app import App, Extension
from tarry.drills.kit.app import NEWS, TOOLS, first, report
from tarry.drills.kit.model import HoldingModel
from tarry.drills.kit.points import async_stop_at
from tarry.hooks import HookApi, HookCall, Hooks
from tarry.wraps import Run

IN_GATE = "in the gate"
HAS_INTENT = "with the intent"
RETURNED = "returned"


async def gate(call: HookCall, api: HookApi) -> None:
    """Asked before the call has its intent; lets it pass."""
    await async_stop_at(IN_GATE, call.conversation_id)


async def around(call: HookCall, run: Run) -> Any:
    """Between the call's intent and the tool's own code, and between that and its result."""
    await async_stop_at(HAS_INTENT, call.conversation_id)
    result = await run()
    await async_stop_at(RETURNED, call.conversation_id)
    return result


app = App(
    model=HoldingModel(first, report),
    extensions=[
        Extension("drill", TOOLS, signals=[NEWS], wraps=[around], hooks=Hooks(before_tool=gate, io=True)),
    ],
)
