"""All workers are killed under work that other work waits for: subagents, nested calls, the tasks of a run's hooks.

They share the kill, and the time after it in which no worker is up and a person answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tarry.client import Submission
from tarry.connect import sending_inline
from tarry.core import results
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tests.support.children_app import DONE, WORDS
from tests.support.drills import settled
from tests.support.parked_drills import ParkedDrill, call_of, told
from tests.support.waiting import eventually

ANSWERED = f"signal {WORDS.name}/{DONE}"
SETTLED = f"signal tarry.submission-settled/{DONE}"


class ChildrenDrill(ParkedDrill):
    """A drill whose workers serve the application with work below work."""

    app = "tests.support.children_app:app"

    async def owned(self, task: str) -> str:
        """The conversation that was made for a task; its first call is the one of its first run."""

        async def find() -> list[str]:
            return [line["child"] for line in self.lines("owned") if line["task"] == task]

        return (await eventually(find))[0]

    async def first_call(self, conversation_id: str) -> str:
        """The id of the first call of a conversation that nobody here submitted to, parked."""

        async def find() -> str:
            return (await self.harness.conversation(conversation_id).view()).open_generation or ""

        task_id = f"{await eventually(find)}/t1.0"
        await self.parked(task_id)
        return task_id

    async def answer(self, task_id: str, text: str) -> None:
        """A person answers by a plain signal: the server keeps it, whoever is up."""
        envelope: dict[str, Any] = {"key": DONE, "value": {"text": text}}
        await sending_inline(self.harness.client).get_workflow_handle(task_id).signal(WORDS.name, envelope)


@dataclass
class Killed:
    """The drill after the kill, its second pair of workers serving, and every submission by its place."""

    drill: ChildrenDrill
    submissions: dict[str, Submission]
    asking: dict[str, str]

    def ledger(self, place: str) -> list[str]:
        return told(self.drill.runs(self.submissions[place].conversation_id))


@pytest.fixture(scope="module")
async def killed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """The one kill, of two workers."""
    async with ChildrenDrill(server, tmp_path_factory.mktemp("children"), tracker_url) as on:
        workers = [await on.worker(), await on.worker()]
        deep = await on.submit("delegate 2")
        nested = {name: await on.submit(f"nest {name}_caller") for name in ("safe", "unsafe")}
        hooked = {name: await on.submit(name, stop_at=["in the hook's task"]) for name in ("review", "round")}
        asking = {"deep": await on.first_call(await on.owned("delegate 0"))}
        for name, submission in nested.items():
            asking[name] = f"{call_of(submission)}/k.ask"
            await on.parked(asking[name])
        await on.parked(call_of(deep))
        for submission in hooked.values():
            await on.reached(submission)
        for worker in workers:
            await worker.kill()
        for task_id in (asking["deep"], asking["safe"]):
            await on.answer(task_id, "blue")
        for _ in workers:
            await on.worker()
        yield Killed(on, {"deep": deep, **nested, **hooked}, asking)


async def test_answer_to_a_person_two_levels_down_comes_up_through_every_subagent_once(killed: Killed) -> None:
    end = await settled(killed.submissions["deep"])
    middle, lowest = [await killed.drill.owned(f"delegate {level}") for level in (1, 0)]

    assert (end.status, end.answer_text) == ("done", "heard heard heard blue")
    assert killed.ledger("deep") == ["delegate 1, key 1", f"delegate 1, key 2, {SETTLED}"]
    assert told(killed.drill.runs(middle)) == ["delegate 1, key 1", f"delegate 1, key 2, {SETTLED}"]
    assert told(killed.drill.runs(lowest)) == ["ask_person 1, key 1", f"ask_person 1, key 2, {ANSWERED}"]
    assert len(await killed.drill.tickets(lowest)) == 1
    assert len(killed.drill.lines("owned")) == 2


async def test_safe_caller_that_is_killed_finds_the_same_nested_call_by_its_key(killed: Killed) -> None:
    after = await killed.drill.aftermath(killed.submissions["safe"])

    assert after.results == ["blue"]
    assert sorted(killed.ledger("safe")) == [
        "ask_person 1, key 2",
        f"ask_person 1, key 3, {ANSWERED}",
        "safe_caller 1, key 1",
        "safe_caller 2, key 1",
    ]
    assert len(after.tickets) == 1


async def test_unsafe_caller_that_is_killed_is_interrupted_and_its_nested_call_is_stopped(killed: Killed) -> None:
    after = await killed.drill.aftermath(killed.submissions["unsafe"])
    ended = await killed.drill.harness.client.get_workflow_handle(killed.asking["unsafe"]).result()

    assert after.results == [results.interrupted("unsafe_caller", "").text]
    assert killed.ledger("unsafe") == ["unsafe_caller 1, key 1", "ask_person 1, key 2"]
    assert (ended["code"], after.tickets) == ("aborted", [])


async def test_task_that_reviews_an_answer_is_run_again_and_sends_the_agent_back_once(killed: Killed) -> None:
    end = await settled(killed.submissions["review"])
    transcript = await killed.drill.harness.conversation(killed.submissions["review"].conversation_id).transcript()

    assert (end.status, end.answer_text) == ("done", "good")
    assert [e.message.text for e in transcript if isinstance(e.message, UserMessage)] == ["review", "better"]
    assert killed.ledger("review") == ["judge 1, key 1", "judge 2, key 1", "judge 1, key 2"]


async def test_task_that_ends_a_run_after_its_round_is_run_again_and_ends_it(killed: Killed) -> None:
    after = await killed.drill.aftermath(killed.submissions["round"])

    assert (after.end, after.kinds) == ("done", ["user", "assistant", "tool_result"])
    assert killed.ledger("round") == ["judge 1, key 1", "judge 2, key 1"]
