# A review before an answer stands: the task that a hook returns sends the agent back to work, until it is content.
# A person who says something meanwhile wins: the review's continuation gives way to that input.
#
#     .venv/bin/python examples/11_review_on_yield.py

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from tarry import App, DurableTask, Extension, Go, Hooks, HookTask, Received, Signal, Sleep, ToolApi, Turn
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, eventually, say


class Verdict(BaseModel):
    is_good: bool
    notes: str = ""


VERDICT = Signal("review.verdict", 1, Verdict, for_people=True)
review: DurableTask[str, dict[str, Any]] = DurableTask("review.review", str, dict[str, Any])


@review.phase
def ask_reviewer(answer: str, api: ToolApi) -> Sleep:
    """Wait for a reviewer, a person here. The run waits too, and nothing runs."""
    return Sleep(Go("judge"), signals=[VERDICT.key("verdict")], ask=f"Does this stand: {answer}")


@review.phase
async def judge(answer: str, api: ToolApi) -> dict[str, Any]:
    """Let it stand, or send the agent back."""
    state = await api.read_signal(VERDICT, "verdict")
    assert isinstance(state, Received)
    verdict = state.value
    return {} if verdict.is_good else {"continue": f"A reviewer found problems: {verdict.notes}"}


def on_yield(turn: Turn) -> Sequence[HookTask]:
    return [HookTask(review, turn.text)]


def answer(request: ModelRequest) -> Reply:
    """One more exclamation mark for each thing it was told."""
    return say("Ready" + "!" * sum(message.role == "user" for message in request.messages))


app = App(
    model=ScriptedModel([answer] * 4),
    extensions=[Extension("review", signals=[VERDICT], tasks=[review], hooks=Hooks(on_yield=on_yield))],
)


async def main() -> None:
    async with Stage("examples.11_review_on_yield:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        first = await conversation.submit("Say when you are ready.")
        await decide(stage, "Ready!", Verdict(is_good=False, notes="not loud enough"))
        await decide(stage, "Ready!!", Verdict(is_good=True))
        print("first:", (await first.wait()).answer_text)

        second = await conversation.submit("Once more.")
        third = await conversation.submit("Never mind the review.")  # it waits for its turn, but comes before a robot's
        await decide(stage, "Ready!!!", Verdict(is_good=False, notes="too loud"))
        print("second:", (await second.wait()).answer_text)
        await decide(stage, "Ready!!!!", Verdict(is_good=True))
        print("third:", (await third.wait()).answer_text)

        for entry in await conversation.transcript():
            print(f"  {entry.kind}: {entry.message.text if entry.message else entry.note}")


async def decide(stage: Stage, text: str, verdict: Verdict) -> None:
    """Be the reviewer of this answer."""

    async def asked() -> list[str]:
        items = [item async for item in stage.harness.work()]
        return [item.id for item in items if item.question.endswith(f": {text}")]

    (task_id,) = await eventually(asked)
    await stage.harness.signal(task_id, VERDICT, "verdict", verdict)


if __name__ == "__main__":
    asyncio.run(main())
