"""One worker is killed with a conversation at every place it can be in: what each of them becomes.

All of them share the kill: it comes when each has reached its place, and another worker is started then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tarry.client import Submission
from tarry.core import results
from tarry.embedded import EmbeddedServer
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill, settled
from tests.support.histories import Account

TOOLS = {
    "unsafe, before": ("unsafe", "before the effect"),
    "unsafe, after": ("unsafe", "after the effect"),
    "safe, before": ("safe", "before the effect"),
    "safe, after": ("safe", "after the effect"),
    "keyed, after": ("keyed", "after the effect"),
    "asking, before": ("asking", "before the effect"),
    "asking, after": ("asking", "after the effect"),
}
MODELS = {
    "answered": ("safe", "answered"),
    "mid-stream": ("say half one, half two", "mid-stream"),
}
FIRST_HALF = "half one,"

CUT_OFF = Account(models=ONCE_EACH, tools=("timed out 1",))
RAN_AGAIN = Account(models=ONCE_EACH, tools=("completed 2",), announced=1)


@dataclass
class Killed:
    """The drill after the kill, its second worker serving, and every submission by its place."""

    drill: Drill
    submissions: dict[str, Submission]

    async def aftermath(self, place: str) -> Aftermath:
        return await self.drill.aftermath(self.submissions[place])


@pytest.fixture(scope="module")
async def killed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """The one kill."""
    async with Drill(server, tmp_path_factory.mktemp("killed"), tracker_url) as on:
        first = await on.worker()
        idle = await on.submit("say I remember")
        await settled(idle)
        places = {**TOOLS, **MODELS}
        submissions = {place: await on.submit(what, stop_at=[point]) for place, (what, point) in places.items()}
        for submission in submissions.values():
            assert (await on.reached(submission)).pid == first.pid
        for place in TOOLS:
            await on.published(f"{generation_of(submissions[place])}/t1.0", "run 1 begins")
        await on.published(generation_of(submissions["mid-stream"]), FIRST_HALF)
        await first.kill()
        await on.worker()
        yield Killed(on, {**submissions, "idle": idle})


def generation_of(submission: Submission) -> str:
    assert submission.view is not None
    return submission.view.generation_id


def interrupted(tool: str) -> str:
    """What the model reads of a run that was cut off."""
    return results.interrupted(tool, "run 1 begins\n").text


async def test_model_request_killed_after_its_answer_is_sent_again_and_the_tool_runs_once(killed: Killed) -> None:
    aftermath = await killed.aftermath("answered")

    (ticket,) = aftermath.tickets
    assert aftermath == Aftermath(
        end="done",
        kinds=["user", "note", "assistant", "tool_result", "assistant"],
        results=[f"Opened {ticket}"],
        runs=[1],
        tickets=[ticket],
        account=Account(models=("timed out 1", *ONCE_EACH), tools=("completed 1",)),
    )


async def test_unsafe_tool_killed_before_its_effect_is_interrupted_with_its_output(killed: Killed) -> None:
    aftermath = await killed.aftermath("unsafe, before")

    assert aftermath == Aftermath(
        end="done", kinds=ROUND, results=[interrupted("unsafe")], runs=[1], tickets=[], account=CUT_OFF
    )


async def test_safe_tool_killed_before_its_effect_runs_again_with_the_same_intent(killed: Killed) -> None:
    aftermath = await killed.aftermath("safe, before")

    first, second = killed.drill.runs(killed.submissions["safe, before"].conversation_id)
    assert second == first.model_copy(update={"attempt": 2})
    (ticket,) = aftermath.tickets
    assert aftermath == Aftermath(
        end="done", kinds=ROUND, results=[f"Opened {ticket}"], runs=[1, 2], tickets=[ticket], account=RAN_AGAIN
    )


async def test_unsafe_tool_killed_after_its_effect_leaves_one_ticket_and_interrupted(killed: Killed) -> None:
    aftermath = await killed.aftermath("unsafe, after")

    assert len(aftermath.tickets) == 1
    assert aftermath == Aftermath(
        end="done",
        kinds=ROUND,
        results=[interrupted("unsafe")],
        runs=[1],
        tickets=aftermath.tickets,
        account=CUT_OFF,
    )


async def test_safe_tool_without_a_key_killed_after_its_effect_opens_a_second_ticket(killed: Killed) -> None:
    aftermath = await killed.aftermath("safe, after")

    orphan, ticket = aftermath.tickets
    assert aftermath == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1, 2],
        tickets=[orphan, ticket],
        account=RAN_AGAIN,
    )


async def test_safe_tool_with_a_key_killed_after_its_effect_runs_again_and_opens_one_ticket(killed: Killed) -> None:
    aftermath = await killed.aftermath("keyed, after")

    (ticket,) = aftermath.tickets
    assert aftermath == Aftermath(
        end="done", kinds=ROUND, results=[f"Opened {ticket}"], runs=[1, 2], tickets=[ticket], account=RAN_AGAIN
    )


async def test_reconcile_turns_interrupted_into_the_result_of_an_effect_that_happened(killed: Killed) -> None:
    aftermath = await killed.aftermath("asking, after")

    (ticket,) = aftermath.tickets
    assert aftermath == Aftermath(
        end="done", kinds=ROUND, results=[f"Opened {ticket}"], runs=[1], tickets=[ticket], account=CUT_OFF
    )


async def test_reconcile_that_finds_no_effect_leaves_the_call_interrupted(killed: Killed) -> None:
    aftermath = await killed.aftermath("asking, before")

    assert aftermath == Aftermath(
        end="done", kinds=ROUND, results=[interrupted("asking")], runs=[1], tickets=[], account=CUT_OFF
    )


async def test_model_request_killed_mid_stream_keeps_its_part_and_is_sent_again_without_it(killed: Killed) -> None:
    aftermath = await killed.aftermath("mid-stream")

    conversation = killed.drill.harness.conversation(killed.submissions["mid-stream"].conversation_id)
    await settled(await conversation.submit("say more"))
    entries = [entry for entry in await conversation.transcript() if entry.kind != "system"]
    assert [entry.note or (entry.message and entry.message.text) for entry in entries[:4]] == [
        "say half one, half two",
        FIRST_HALF,
        "The worker was lost in the middle of the model request, which is sent again.",
        "half one, half two",
    ]
    sent = [[message.text for message in request.messages] for request in killed.drill.requests(conversation.id)]
    question = "say half one, half two"
    assert sent == [[question], [question], [question, "half one, half two", "say more"]]
    assert aftermath == Aftermath(
        end="done",
        kinds=["user", "aborted", "note", "assistant"],
        results=[],
        runs=[],
        tickets=[],
        account=Account(models=("timed out 1", "completed 1")),
    )


async def test_idle_conversation_does_not_notice_that_its_worker_was_killed(killed: Killed) -> None:
    conversation = killed.drill.harness.conversation(killed.submissions["idle"].conversation_id)

    again = await conversation.submit("say it again")

    assert await killed.drill.aftermath(again) == Aftermath(
        end="done",
        kinds=["user", "assistant", "user", "assistant"],
        results=[],
        runs=[],
        tickets=[],
        account=Account(models=ONCE_EACH),
    )
    assert [m.text for m in killed.drill.requests(conversation.id)[-1].messages] == [
        "say I remember",
        "I remember",
        "say it again",
    ]
