"""Orders of a tree of agents whose worker is lost when they are done, and before that is known (spec §17.14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activities.agents.orders import AgentActivities
from activities.agents.turns import AgentTurns
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import WORK, grove


class Doubled:
    """Each of these methods works, and fails then, the first time that it is called with these arguments."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, *names: str) -> None:
        self.calls: list[str] = []
        for name in names:
            patch.setattr(owner, name, self._doubled(name, getattr(owner, name)))

    def _doubled(self, name: str, inner: Any) -> Any:
        async def called(owner: Any, *arguments: Any) -> Any:
            result = await inner(owner, *arguments)
            call = f"{name}{arguments!r}"
            self.calls.append(call)
            if self.calls.count(call) == 1:
                raise RuntimeError("lost after it was done")
            return result

        return called


async def test_what_is_ordered_happens_once_however_often_it_is_carried_out(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubled = Doubled(monkeypatch, AgentTurns, "begin", "fetch")
    Doubled(monkeypatch, AgentActivities, "_signal")
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        child = await on.start("a", "one")
        await on.start("b", WORK + "b")
        await on.work.has_begun("b")
        await on.interrupt("b")
        first = await on.completions(2)
        await on.send("a", "two")
        await on.follow_up("a", "three")
        second = await on.completions(1)

        entries = await on.on.harness.conversation(child.agent_id).transcript()
        tree = await on.tree.list()

    assert {one.path: one.reason or one.text for one in first} == {"/root/a": "heard one", "/root/b": "aborted"}
    assert [one.text for one in second] == ["heard two\n\nthree"]
    inputs = [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]
    assert inputs == ["one", "two\n\nthree"]
    assert [(row.turns, row.pending, row.state) for row in tree.agents] == [(2, 0, "idle"), (1, 0, "idle")]
    assert (tree.permits_used, tree.queued) == (0, 0)
    assert {doubled.calls.count(call) for call in doubled.calls} == {2}
