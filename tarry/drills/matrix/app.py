"""What the workers of the matrix serve: the kit's tools, a gate before and a wrapper around each, and hooks of a run.

All of these hold at points of their own, so that a worker can be killed where no code of a tool is.
"""

from __future__ import annotations

from typing import Any

from tarry.app import App, Extension
from tarry.drills.kit.app import NEWS, TOOLS, first, report
from tarry.drills.kit.model import HoldingModel
from tarry.drills.kit.points import async_stop_at
from tarry.hooks import HookApi, HookCall, Hooks, Turn
from tarry.wraps import Run

IN_GATE = "in the gate"
HAS_INTENT = "with the intent"
RETURNED = "returned"
TURN_TOLD = "told of the turn"
ANSWER_TOLD = "told of the answer"


async def gate(call: HookCall, api: HookApi) -> None:
    """Asked before the call has its intent; lets it pass."""
    await async_stop_at(IN_GATE, call.conversation_id)


async def around(call: HookCall, run: Run) -> Any:
    """Between the call's intent and the tool's own code, and between that and its result."""
    await async_stop_at(HAS_INTENT, call.conversation_id)
    result = await run()
    await async_stop_at(RETURNED, call.conversation_id)
    return result


async def turn_told(turn: Turn) -> None:
    """Told of the results of a turn, before the next request."""
    await async_stop_at(TURN_TOLD, turn.conversation_id)


async def answer_told(turn: Turn) -> None:
    """Told of an answer, before it stands."""
    await async_stop_at(ANSWER_TOLD, turn.conversation_id)


HOOKS = Hooks(before_tool=gate, after_tools=turn_told, on_yield=answer_told, io=True)

app = App(
    model=HoldingModel(first, report),
    extensions=[Extension("drill", TOOLS, signals=[NEWS], wraps=[around], hooks=HOOKS)],
)
