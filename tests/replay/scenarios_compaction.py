"""Compactions, played to be kept: every road to one, and every way in which it ends (spec §11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise

from tarry.client import Conversation
from tarry.core.compaction_protocol import COMPACT, CompactInput
from tarry.core.conversation import ConversationInput, ConversationState
from tarry.core.folding import FAN
from tarry.core.protocol import CONVERSATION, GENERATION, VIEW, RunResult
from tarry.core.run import GenerationInput, RunCarry, RunState
from tarry.core.transcript import PAGE_BYTES, PageRef, Position, Transcript, user_draft
from tarry.core.views import ConversationView
from tarry.models import ModelInfo, ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, fail, say
from tarry.tools import tool
from tests.replay.studio import Studio
from tests.support.compacting import ANSWER, KEEP_LITTLE, HeldSummaries, refusing, talked, talker
from tests.support.held import HeldModel
from tests.support.stage import app_of
from tests.support.waiting import eventually


@tool(replay="safe")
def look() -> str:
    """Look around."""
    return "seen"


@tool
def read_long() -> str:
    """Read something long."""
    return "long " * 9_000


async def compacted_by_hand(studio: Studio) -> None:
    async with studio.conversation(app_of(talker()), **KEEP_LITTLE) as (on, conversation):
        await talked(conversation, "one", "two")
        await (await conversation.compact("the numbers")).wait()
        handle = on.client.get_workflow_handle(conversation.id)
        await handle.signal(COMPACT, CompactInput(request_id="again", settings=on.settings.run_settings()))
        await eventually(lambda: over(conversation), lambda number: number == 2)
        await talked(conversation, "three")


async def compacted_before_a_request(studio: Studio) -> None:
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 0}
    async with studio.conversation(app_of(talker(window=300)), **sizes) as (_, conversation):
        await talked(conversation, "one", "two", "three")


async def compacted_after_an_overflow(studio: Studio) -> None:
    failing = [fail("retryable", "overloaded", retry_after=1.0)]
    async with studio.conversation(app_of(refusing(1_100, summary=[*failing, say("short")])), **KEEP_LITTLE) as (
        _,
        conversation,
    ):
        await talked(conversation, "one", "two", "three", "four")


async def refused_whatever_was_compacted(studio: Studio) -> None:
    async with studio.conversation(app_of(refusing(10)), **KEEP_LITTLE) as (_, conversation):
        await talked(conversation, "long " * 200, "long " * 200)


async def compacted_beside_a_run(studio: Studio) -> None:
    model = ScriptedModel(
        [*[calls(call("look"), text=ANSWER)] * 3, say("done"), *[calls(call("look"), text=ANSWER)] * 9],
        info=ModelInfo(context_window=600),
    )
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 250}
    async with studio.conversation(app_of(model, look), **sizes) as (_, conversation):
        await talked(conversation, "go")
        await eventually(lambda: over(conversation))


async def large_answer_stopped(studio: Studio) -> None:
    """A Stop comes together with an answer that leaves a large context: none is compacted for it."""
    model = HeldModel(talker(window=600), deaf=True)
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 400}
    async with studio.conversation(app_of(model), **sizes) as (_, conversation):
        model.go.set()
        await talked(conversation, "one")
        model.go.clear()
        model.asked.clear()
        submission = await conversation.submit("two")
        await model.asked.wait()
        await conversation.abort()
        await model.cancelled.wait()
        model.go.set()
        await submission.wait()


async def compaction_stopped(studio: Studio) -> None:
    model = HeldSummaries(talker())
    async with studio.conversation(app_of(model), **KEEP_LITTLE) as (_, conversation):
        await talked(conversation, "one", "two")
        compaction = await conversation.compact()
        await model.asked.wait()
        await conversation.abort()
        await compaction.wait()
        model.go.set()


async def page_references_folded(studio: Studio) -> None:
    """Begun with as many pages as are kept by themselves, of which a head marker leaves nothing to be read."""
    async with studio.conversation(app_of(ScriptedModel.for_each_input([say("fine")]))) as (on, conversation):
        state = ConversationState.born("nonce")
        places = [state.transcript.start, *(Position(index=n, chain=f"c{n}") for n in range(1, 2 * FAN))]
        state.transcript.pages = [
            PageRef(ref="none", first=first, last=last, size=PAGE_BYTES, head=last) for first, last in pairwise(places)
        ]
        state.by_boundary = True
        input = ConversationInput(nonce="nonce", carry=state, notes_ends=True, by_boundary=True, folds=True)
        await on.client.start_workflow(CONVERSATION, input, id=conversation.id, task_queue=on.settings.task_queue)
        await talked(conversation, "long " * 14_000)
        handle = on.client.get_workflow_handle(conversation.id)

        async def pages() -> tuple[PageRef, ...]:
            view: ConversationView = await handle.query(VIEW, result_type=ConversationView)
            return view.pages

        await eventually(pages, lambda found: any(page.level for page in found))


async def page_references_of_a_run_folded(studio: Studio) -> None:
    """A run that goes on with as many pages as are kept by themselves, and seals one more."""

    def decide(request: ModelRequest) -> Reply:
        newest = request.messages[-1]
        return calls(call("read_long"), call("read_long")) if newest.text == "go on" else say("done")

    model = ScriptedModel([decide] * 3)
    async with studio.stage(app_of(model, read_long)) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one")
        start = (await conversation.view()).end
        places = [start, *(Position(index=start.index + n, chain=f"c{n}") for n in range(1, 2 * FAN))]
        pages = [
            PageRef(ref="none", first=first, last=last, size=PAGE_BYTES, head=last) for first, last in pairwise(places)
        ]
        transcript = Transcript(start=start, pages=pages)
        transcript.append(user_draft("go on", datetime(2026, 1, 1, tzinfo=UTC), 2))
        carry = RunCarry(state=RunState(), transcript=transcript)
        settings = on.settings.run_settings()
        input = GenerationInput(
            conversation_id=conversation.id, run=2, start=start, settings=settings, carry=carry, folds=True
        )
        id, queue = f"{conversation.id}~nonce/g2", on.settings.task_queue
        result = await on.client.execute_workflow(GENERATION, input, id=id, task_queue=queue, result_type=RunResult)
        assert [page.level for page in result.pages[:2]] == [1, 0]


async def over(conversation: Conversation) -> int:
    return sum(one.is_over for one in (await conversation.view()).compactions)


COMPACTION: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        compacted_by_hand,
        compacted_before_a_request,
        compacted_after_an_overflow,
        refused_whatever_was_compacted,
        compacted_beside_a_run,
        large_answer_stopped,
        compaction_stopped,
        page_references_folded,
        page_references_of_a_run_folded,
    )
}
