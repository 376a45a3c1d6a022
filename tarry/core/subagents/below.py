"""What a conversation knows of the agents below it, and what a Stop of it tells their tree (spec §17.11).

Pure. A subagent knows its tree from its birth. A root is told that it has one, maybe after it was stopped: what it then
tells names the run that was stopped, so that nothing of a later run is meant.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from tarry.core.commits import TellWorkflow
from tarry.core.subagents.protocol import STOPPED, StopBelow


class Below(BaseModel):
    """`tree`: the id of the workflow that knows the agents; empty: there are none, as far as it was told."""

    tree: str = ""
    stopped: int = Field(default=0, description="number of the newest run when it was stopped last; 0: it never was")

    def learn(self, conversation_id: str, tree: str) -> list[TellWorkflow]:
        """There is a tree; what it is to be told of a Stop before that."""
        if self.tree:
            return []
        self.tree = tree
        return self._told(conversation_id) if self.stopped else []

    def stop(self, conversation_id: str, run: int) -> list[TellWorkflow]:
        """A Stop while `run` was the newest; whom to tell."""
        self.stopped = run
        return self._told(conversation_id) if self.tree else []

    def _told(self, conversation_id: str) -> list[TellWorkflow]:
        below = StopBelow(conversation_id=conversation_id, run=self.stopped)
        return [TellWorkflow(workflow_id=self.tree, name=STOPPED, value=below.model_dump(mode="json"))]
