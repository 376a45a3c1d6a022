"""What a message and a completion cost when models use the tools, counted in events, never in time (spec §17.40).

The tree's part is as in `test_agents_budget.py`; a call of the root costs what any call does, and one that waits is
woken once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.histories import cost_of
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, calls, say
from tests.support.answers import ask
from tests.support.delegating import Delegation, delegation, last_result, last_user
from tests.support.waiting import eventually

NUMBER = 10
WAIT = call("wait_agent", timeout_seconds=120)

RUN, ROUND, CALL = 26, 26, 20
"""Events of a run without calls, of a round with one, and of one more parallel call (`test_budgets.py`)."""
UPDATE, ORDER, SIGNAL = 5, 6, 4


def root(request: ModelRequest) -> Reply | Call:
    """Start ten; write to all; or start a turn of all and read until all ends were read."""
    asked = last_user(request)
    if request.messages[-1].role == "user":
        return calls(*(_first(asked, f"child-{number}") for number in range(NUMBER)))
    if not asked.endswith("read") or last_result(request).startswith("Nothing to wait for"):
        return say("done")
    return WAIT


def _first(asked: str, name: str) -> Call:
    if asked.startswith("start"):
        return call("subagent", agent="scout", prompt="Look.", task_name=name)
    return call("send_message" if asked == "write" else "followup_task", agent=name, message="Look again.")


@dataclass
class Counted:
    """Events of the tree, of the root with all its runs and calls, and of one child."""

    tree: int
    root: int
    child: int


async def counted(made: Delegation) -> Counted:
    """How many there are once all children rest."""
    rows = await eventually(made.rows, lambda rows: all(row.state == "idle" for row in rows))
    ids = ((await made.tree()).id, made.root.id, rows[0].agent_id)
    return Counted(*[(await cost_of(made.on.client, one)).events for one in ids])


async def test_messages_and_completions_cost_no_more_than_their_calls_updates_and_orders(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with delegation(server, tmp_path, [root] * 40, {"scout": [say("found")]}, max_concurrent_runs=4) as made:
        await ask(made.root, "start, read")
        before = await counted(made)

        await ask(made.root, "write")
        written = await counted(made)

        assert written.tree - before.tree <= NUMBER * UPDATE
        assert written.root - before.root <= RUN + ROUND + (NUMBER - 1) * CALL
        assert written.child == before.child

        answer = await ask(made.root, "follow up, read")
        read = await counted(made)
        waits = len(answer.results) - NUMBER

        turn = UPDATE + ORDER + UPDATE + ORDER
        wait = UPDATE + ORDER + UPDATE + SIGNAL  # asked, told, asked again, and read durably
        assert read.tree - written.tree <= NUMBER * turn + waits * wait
        assert read.root - written.root <= RUN + ROUND + (NUMBER - 1) * CALL + waits * (ROUND + CALL)
        assert read.child - written.child <= RUN + ORDER
