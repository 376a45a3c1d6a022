"""The application of the bench of subagents: a root that delegates to very many, and children that answer at once.

What the root is asked is a phase of the bench: `start 200`, `read`, `send 200`, or `follow up 200, read`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from tarry import App
from tarry.core.messages import ToolMessage, UserMessage
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.models import ModelRequest, ModelResponse
from tarry.subagents.extension import subagents
from tarry.testing import Call, Reply, ScriptedModel, call, say

MAX_CHILDREN = 1_000
IN_ONE_ROUND = 50
"""Calls of one response."""
LIMIT = "BENCH_SUBAGENTS_LIMIT"
PEAK = "BENCH_SUBAGENTS_PEAK"
"""A file with the highest number of children whose models were asked at once."""
THINKS = 0.2
"""Seconds: so long a child's model takes, lest none meets another."""

PROMPT = "Look at part {number} of the change, and say what is wrong there."
MESSAGE = "Look at how part {number} treats an empty file, too."
ANSWER = "Two things are wrong: the function fails for an empty file, and no test calls it with one."

_CALLS: dict[str, Callable[[int], Call]] = {
    "start": lambda number: call(
        "subagent", agent="reviewer", prompt=PROMPT.format(number=number), task_name=f"part-{number}"
    ),
    "send": lambda number: call("send_message", agent=f"part-{number}", message=MESSAGE.format(number=number)),
    "follow up": lambda number: call("followup_task", agent=f"part-{number}"),
}


def root(request: ModelRequest) -> Reply | Call:
    """Make the calls of the phase, in rounds, and then read until nothing is left."""
    place = max(at for at, message in enumerate(request.messages) if isinstance(message, UserMessage))
    asked = request.messages[place].text
    results = [message.text for message in request.messages[place:] if isinstance(message, ToolMessage)]
    kind, number = _phase(asked)
    if len(results) < number:
        wanted = range(len(results), min(len(results) + IN_ONE_ROUND, number))
        return Reply(calls=tuple(_CALLS[kind](one) for one in wanted))
    if not asked.endswith("read") or (len(results) > number and results[-1].startswith("Nothing to wait for")):
        return say(str(sum(text.count("ended its turn") for text in results)))
    return call("wait_agent", timeout_seconds=120)


def _phase(asked: str) -> tuple[str, int]:
    found = re.match(r"(.+?) (\d+)", asked)
    return (found[1], int(found[2])) if found else ("read", 0)


class Child:
    """A scripted model that counts how many of its requests are open at once."""

    def __init__(self, peak: str) -> None:
        self._model = ScriptedModel.for_each_input([say(ANSWER)], "bench/child")
        self.info, self.name = self._model.info, self._model.name
        self._file = Path(peak) if peak else None
        self._open = self._peak = 0

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """Take a moment, then answer."""
        self._open += 1
        if self._open > self._peak:
            self._peak = self._open
            if self._file is not None:
                self._file.write_text(str(self._peak))
        try:
            await asyncio.sleep(THINKS)
            return await self._model.respond(request, on_text)
        finally:
            self._open -= 1


_SETTINGS = SubagentSettings(max_agents=MAX_CHILDREN, max_concurrent_runs=int(os.environ.get(LIMIT, "4")))
_REVIEWER = AgentDefinition(
    name="reviewer", description="reviews a part of a change", prompt="You look closely.", model="child"
)

app = App(
    model=ScriptedModel.for_each_input([root] * (4 * MAX_CHILDREN), "bench/root"),
    models={"child": Child(os.environ.get(PEAK, ""))},
    extensions=[subagents(Snapshot(definitions=(_REVIEWER,), settings=_SETTINGS))],
)
