"""A busy conversation: whatever comes while a run is open stands once, at a legal place, in order (spec §6.6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from tarry.client import Conversation, Submission
from tarry.core.messages import UserMessage
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelInfo, ModelRequest, ModelResponse
from tarry.testing import Reply, ScriptedModel, call, calls, fail, say
from tarry.tools import tool
from tests.support.compacting import ANSWER, KEEP_LITTLE
from tests.support.held import HeldModel, HeldTool
from tests.support.stage import Stage, app_of, kinds, stage
from tests.support.waiting import PATIENCE, eventually


@tool(replay="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def users(entries: Sequence[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


async def ends(*submissions: Submission) -> list[str]:
    """How each ended, with its reason."""
    async with asyncio.timeout(PATIENCE):
        settled = await asyncio.gather(*(submission.wait() for submission in submissions))
    return [" ".join(part for part in (end.status, end.reason) if part) for end in settled]


async def turns_of(on: Stage, workflow_id: str) -> int:
    """How many runs of a workflow there are."""
    return (await on.client.count_workflows(f'WorkflowId = "{workflow_id}"')).count


class HeldSummaries:
    """Answers at once, but begins each summary only when it is let go."""

    def __init__(self, inner: ScriptedModel) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        if request.purpose == "summary":
            self.asked.set()
            await self.go.wait()
        return await self._inner.respond(request, on_text)


async def test_inputs_at_once_while_parked_and_during_a_compaction_each_stand_once_in_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def answer(request: ModelRequest) -> Reply:
        return calls(call("work", what="a")) if request.messages[-1].text == "A" else say(ANSWER)

    model = HeldSummaries(ScriptedModel.for_each_input([answer, say(ANSWER)]))
    async with stage(server, app_of(model, held.tool), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        a, b = await asyncio.gather(conversation.submit("A"), asyncio.create_task(conversation.submit("B")))
        await held.begun()
        c = await conversation.submit("C")
        held.go.set()
        assert await ends(a, b, c) == ["done"] * 3
        compaction = await conversation.compact()
        await model.asked.wait()
        d = await conversation.submit("D")
        assert await ends(d) == ["done"]
        model.go.set()
        assert (await compaction.wait()).status == "placed"
        entries = await conversation.transcript()

    assert sorted(users(entries)[:2]) == ["A", "B"]
    assert users([entry for entry in entries if entry.kind == "user"])[2:] == ["C", "D"]
    place = kinds(entries).index("tool_result")
    assert kinds(entries)[place - 1 : place + 1] == ["assistant", "tool_result"]


async def test_sixty_items_in_bursts_over_turns_of_the_workflows_are_each_placed_once_in_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel.for_each_input([calls(call("look", what="a")), say("done")])
    async with stage(server, app_of(model, look), tmp_path, turnover_events=10) as on:
        conversation = on.harness.conversation()
        sent: list[Submission] = []
        for burst in range(12):
            names = [f"{'fnsnf'[n]}{burst * 5 + n}" for n in range(5)]
            sent += await asyncio.gather(*(item(conversation, name) for name in names))
        settled = await ends(*sent)
        entries = await conversation.transcript()
        turns = await turns_of(on, conversation.id)

    assert settled == ["done"] * 60
    stood = [entry.note or (entry.message.text if entry.message else "") for entry in entries]
    for kind, number in (("f", 24), ("n", 24), ("s", 12)):
        found = [int(text[1:]) for text in stood if text[:1] == kind and text[1:].isdigit()]
        # Five come at once, each by a road of its own; between two bursts there is an order.
        assert (len(found), len(set(found))) == (number, number)
        assert [n // 5 for n in found] == sorted(n // 5 for n in found)
    assert turns > 3


async def item(conversation: Conversation, name: str) -> Submission:
    """A note, a steer or a follow-up, by its first letter."""
    if name[0] == "n":
        return await conversation.write(name)
    return await conversation.submit(name, when_busy="steer" if name[0] == "s" else "follow_up")


async def test_constant_steers_and_notes_keep_nothing_from_turning_over_or_stopping(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def decide(request: ModelRequest) -> Reply:
        new = [message.text for message in request.messages[_answered(request) :]]
        if "work" in new:
            return calls(call("work", what="a"))
        return calls(call("look", what="a")) if any(text[:1] == "f" for text in new) else say("done")

    model = ScriptedModel([decide] * 1_000)
    async with stage(server, app_of(model, held.tool, look), tmp_path, turnover_events=30) as on:
        conversation = on.harness.conversation()
        sent: list[tuple[str, Submission]] = []

        async def send_without_end() -> None:
            for number in count():
                name = f"{'fsn'[number % 3]}{number}"
                sent.append((name, await item(conversation, name)))
                await asyncio.sleep(0.05)

        traffic = asyncio.create_task(send_without_end())
        await eventually(lambda: turns_of(on, conversation.id), lambda turns: turns > 3)
        await conversation.submit("work", when_busy="steer")
        await held.begun()
        begun = time.monotonic()
        await conversation.abort()
        last = await conversation.submit("last")
        traffic.cancel()
        assert await ends(last) == ["done"]
        seconds = time.monotonic() - begun
        settled = dict(zip([name for name, _ in sent], await ends(*(one for _, one in sent)), strict=True))
        entries = await conversation.transcript()

    stood = [entry.note or (entry.message.text if entry.message else "") for entry in entries]
    for kind in "fsn":
        answered = [name for name, end in settled.items() if name[0] == kind and end == "done"]
        assert [text for text in stood if text in answered] == answered
    assert seconds < 10
    assert set(settled.values()) <= {"done", "unanswered aborted"}
    assert {end for name, end in settled.items() if name[0] == "n"} == {"done"}


def _answered(request: ModelRequest) -> int:
    """How many messages there are up to the last response."""
    places = [place for place, message in enumerate(request.messages, 1) if message.role == "assistant"]
    return places[-1] if places else 0


async def test_with_mode_all_one_run_answers_what_waits_and_it_settles_together(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path, follow_up_mode="all", steering_mode="all") as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        others = [await conversation.submit(text) for text in ("f1", "f2", "f3")]
        steers = [await conversation.submit(text, when_busy="steer") for text in ("s1", "s2")]
        held.go.set()
        settled = [await submission.wait() for submission in (first, *steers, *others)]
        entries = await conversation.transcript()

    runs = [end.generation_id[-2:] for end in settled]
    assert runs == ["g1"] * 3 + ["g2"] * 3
    assert len({end.answer for end in settled[3:]}) == 1
    steered = ["user", "assistant", "tool_result", "user", "user"]
    answered = ["assistant", "tool_result", "assistant"]
    assert kinds(entries) == [*steered, *answered, *["user"] * 3, *answered]
    assert users([entries[end.entry or 0] for end in settled]) == ["first", "s1", "s2", "f1", "f2", "f3"]


async def test_a_failed_run_settles_what_it_had_placed_and_what_is_queued_starts_after_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def answer(request: ModelRequest) -> Reply:
        return calls(call("work", what="a")) if request.messages[-1].text == "first" else say("fine")

    model = ScriptedModel([answer, fail("permanent", "no such model"), *[answer] * 9])
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        await held.begun()
        later = await conversation.submit("later")
        steers = [await conversation.submit(text, when_busy="steer") for text in ("s1", "s2")]
        note = await conversation.write("it rains")
        held.go.set()
        settled = await ends(first, steers[0], note, later, steers[1])
        entries = await conversation.transcript()

    failed = "unanswered model_error"
    assert settled == [failed, failed, "done", "done", "done"]
    assert kinds(entries) == ["user", "assistant", "tool_result", "note", "user", "user", "user", "assistant"]
    assert users(entries) == ["first", "s1", "later", "s2"]


async def test_a_reset_while_the_answer_is_on_its_way_leaves_the_answer(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel.for_each_input([lambda asked: say(" ".join(m.text for m in asked.messages))]))
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("one")
        await model.asked.wait()
        reset = await conversation.reset("Begin.")
        second = await conversation.submit("two")
        model.go.set()
        texts = [(await submission.wait()).answer_text for submission in (first, second)]

        assert texts == ["one", "Begin. two"]
        assert await ends(first, reset) == ["done", "done"]


async def test_a_compaction_that_a_reset_overtook_is_stale(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel.for_each_input([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        assert await ends(await conversation.submit("one")) == ["done"]
        place = (await conversation.transcript())[0].position
        await conversation.reset()
        late = await conversation.write("one was said", kind="compaction", head=place)

        assert await ends(late) == ["unanswered stale"]
        assert kinds(await conversation.transcript()) == ["user", "assistant", "reset"]
