# A review in three levels: the root starts four leads, each of them four reviewers, and everybody waits for its own.
# One reviewer asks a person. That shows at the root, and every worker is off until the answer has come.
#
#     .venv/bin/python examples/23_review_tree.py

from __future__ import annotations

import asyncio
import re

from pydantic import BaseModel

from tarry import App, Ask, Extension, Question, Received, Signal, Sleep, ToolApi, tool
from tarry.models import ModelRequest
from tarry.subagents import AgentDefinition, Snapshot, SubagentSettings, subagents
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, calls, eventually, say

AREAS, PARTS, ASKS = ("api", "jobs", "store", "web"), ("errors", "names", "tests", "tokens"), "api/tokens"


class Words(BaseModel):
    text: str


ANSWER = Signal("desk.answer", 1, Words, for_people=True)


@tool(replay="safe")
async def ask_ana(question: str, api: ToolApi) -> str | Sleep:
    """Ask Ana, for as long as it takes."""
    state = await api.read_signal(ANSWER, "answer")
    waits = Sleep(signals=[ANSWER.key("answer")], ask=Ask(text=question, for_whom="Ana"))
    return state.value.text if isinstance(state, Received) else waits


def delegate(request: ModelRequest) -> Reply:
    """The root starts a lead for each area, a lead a reviewer for each part of its own."""
    area = request.messages[-1].text
    if area == "Review it all.":
        return calls(*(call("subagent", agent="lead", prompt=name, task_name=name) for name in AREAS))
    return calls(*(call("subagent", agent="reviewer", prompt=f"{area}/{name}", task_name=name) for name in PARTS))


def collect(request: ModelRequest) -> Reply | Call:
    """Wait until all four have ended; then tell all reviews that came."""
    results = [message.text for message in request.messages if message.role == "tool"]
    if sum(result.count("ended its turn") for result in results) < 4:
        return call("wait_agent", timeout_seconds=120)
    return say("\n".join(sorted(line for result in results for line in re.findall(r"^\w+/\w+: .+", result, re.M))))


def review(request: ModelRequest) -> Reply | Call:
    where, *told = [message.text for message in request.messages if message.role in ("user", "tool")]
    if where == ASKS and not told:
        return call("ask_ana", question="How long may tokens live?")
    return say(f"{where}: {told[0] if told else 'sound'}")


LEAD = AgentDefinition(name="lead", description="leads a review", prompt="Let others review.", model="lead")
REVIEWER = AgentDefinition(name="reviewer", description="reviews", prompt="You look closely.", model="reviewer")
SETTINGS = SubagentSettings(max_concurrent_runs=20, inherit_extensions=True)
manager = ScriptedModel([delegate, *([collect] * 20)])
app = App(
    model=manager,
    models={"lead": manager, "reviewer": ScriptedModel([review, review])},
    extensions=[
        Extension("desk", [ask_ana], signals=[ANSWER]),
        subagents(Snapshot(definitions=(LEAD, REVIEWER), settings=SETTINGS)),
    ],
)


async def main() -> None:
    async with Stage("examples.23_review_tree:app") as stage:
        worker = await stage.start_worker()
        root = stage.harness.conversation()
        submission = await root.submit("Review it all.")
        [question] = await eventually(lambda: stage.harness.questions(root.id))
        await eventually(stage.harness.wake, lambda plan: not plan.active)
        await show(stage, question)
        await worker.stop()
        told = await stage.harness.signal(question.task_id, ANSWER, "answer", Words(text="for an hour"))
        print("every worker is off; the answer:", told.answer)
        await stage.start_worker()
        reviews = ((await submission.wait()).answer_text or "").splitlines()
        print(
            f"{len(reviews)} reviews, {len(set(reviews))} different ones; {next(one for one in reviews if ASKS in one)}"
        )


async def show(stage: Stage, question: Question) -> None:
    """Who asks, from the root down."""
    agents = (await (await stage.harness.agents(question.path[0])).list()).agents
    print("below the root:", len(agents), "agents")
    print("asks:", " > ".join(row.path for row in agents if row.agent_id in question.path))
    print(f"{question.for_whom} is asked: {question.question}")


if __name__ == "__main__":
    asyncio.run(main())
