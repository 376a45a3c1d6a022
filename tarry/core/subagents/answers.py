"""What calls were answered, so that a call that asks again changes nothing (spec §17.8).

Pure. The answers of the newest 512 requests are kept, which a call that is still open is among; starts are known for
ever, by their agents.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen
from tarry.core.protocol import digest
from tarry.core.subagents.refusing import Refused

KEPT = 512


class Answer(Frozen):
    """`content`: digest of what was asked."""

    content: str
    result: dict[str, Any]


class Answers(BaseModel):
    """By what was asked, and the call that asked it; oldest first."""

    kept: dict[str, Answer] = Field(default_factory=dict)

    def find(self, kind: str, task_id: str, request: BaseModel) -> dict[str, Any] | None:
        """What the call was answered before, if it asked.

        Raises:
            Refused: `conflict`: it asked for something else.
        """
        answer = self.kept.get(f"{kind} {task_id}")
        if answer is None:
            return None
        check_same(answer.content, content(request), task_id)
        return answer.result

    def keep(self, kind: str, task_id: str, request: BaseModel, result: BaseModel) -> None:
        """Keep an answer."""
        answer = Answer(content=content(request), result=result.model_dump(mode="json"))
        self.kept[f"{kind} {task_id}"] = answer
        if len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]


def content(request: BaseModel) -> str:
    """Stands for what a call asks for: not for its key, nor for the choices that its host made of a definition."""
    return digest(request.model_dump_json(exclude={"key", "agent"}))


def check_same(before: str, now: str, task_id: str) -> None:
    """Whether a call asks for what it asked before.

    Raises:
        Refused: `conflict`.
    """
    if before != now:
        raise Refused("conflict", f"the call {task_id} asked for something else before: make a new call")
