"""The applications of the benches. Their model is scripted and answers at once: only our own cost is left."""

from __future__ import annotations

from tarry import App, Extension, tool
from tarry.models import ModelInfo, OwnThresholds
from tarry.testing import ScriptedModel, call, say

QUESTION = "Which of the orders of the last week have not left the warehouse yet, and why not? " * 3
KEY = "orders.open"
FOUND = "order 4711: the carrier did not come; order 4712: one item is out of stock; " * 3
ANSWER = "Two of them are still here: for 4711 the carrier did not come, 4712 waits for an item. " * 3

TURN_BYTES = 2_000
"""What is said to the talker in a turn, and what it says."""


@tool(replay="safe")
def look_up(key: str) -> str:
    """Look up what is known under a key."""
    return FOUND


one_call = App(
    model=ScriptedModel.for_each_input([call("look_up", key=KEY), say(ANSWER)]),
    extensions=[Extension("bench", [look_up])],
)
"""Two model requests and one tool call for each input."""

_WINDOW = ModelInfo(
    context_window=40_000,
    compaction=OwnThresholds(reserve_tokens=8_000, keep_recent_tokens=8_000, background_tokens=8_000),
)
"""So large that twenty turns fit into it, and are then compacted beside the runs."""
talker = App(model=ScriptedModel.for_each_input([say("y" * TURN_BYTES)], info=_WINDOW))
"""One model request for each input, no tools; its context is compacted as it grows."""
