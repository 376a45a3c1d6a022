"""Ten parked calls while workers are killed, stopped and started, values come twice and late, and some are stopped.

What happens and in which order is drawn with a fixed seed; when it meets what is not, so each time is another.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from temporalio.service import RPCError

from signals.box import Receipt
from tarry.client import Submission
from tarry.core.messages import ToolMessage
from tarry.core.transcript import Entry
from tarry.core.waiting import RECEIPTS
from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tests.support.drills import Run, settled
from tests.support.histories import account
from tests.support.parked_app import DONE, NEWS
from tests.support.parked_drills import ParkedDrill

SEED = 20_261_130
CALLS = 10
STEPS = 25
WEIGHTS = {"deliver": 3, "send": 8, "junk": 3, "abort": 2, "kill": 5, "term": 2, "start": 5}
MOST_WORKERS = 2
UNHANDLED = "UNHANDLED_COMMAND"
"""A workflow that would have ended met something new, and took it in first."""
UNSEEN = ("interrupted", "aborted")
"""Codes of a result that says nothing of what its woken run had read."""


@dataclass
class Chaos:
    """What is done to the calls of one submission; `sent` are the texts by delivery id."""

    on: ParkedDrill
    submission: Submission
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))
    sent: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def call(self, slot: int) -> str:
        assert self.submission.view is not None
        return f"{self.submission.view.generation_id}/t1.{slot}"

    async def step(self) -> None:
        """Something, somewhere."""
        (kind,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        slot = self.rng.randrange(CALLS)
        await getattr(self, f"_{kind}")(slot)

    async def finish(self) -> None:
        """One more worker, which is not killed, and every call is given a value that it may not need any more."""
        self.on.points.plan(self.submission.conversation_id, [], deadly=False)
        await self.on.worker()
        await asyncio.gather(*map(self._deliver, range(CALLS)))

    def _new(self, text: str) -> str:
        delivery_id = f"d{len(self.sent)}"
        self.sent[delivery_id] = text
        return delivery_id

    async def _deliver(self, slot: int) -> None:
        text = f"value {len(self.sent)}"
        id = self._new(text)
        result = await self.on.harness.signal(self.call(slot), NEWS.name, DONE, {"text": text}, delivery_id=id)
        self.told[id] = result.answer

    async def _send(self, slot: int) -> None:
        text = f"value {len(self.sent)}"
        await self._leave(slot, self._new(text), {"text": text})

    async def _junk(self, slot: int) -> None:
        await self._leave(slot, self._new("junk"), {"txt": "junk"})

    async def _leave(self, slot: int, delivery_id: str, value: dict[str, str]) -> None:
        handle = self.on.harness.client.get_workflow_handle(self.call(slot))
        self.told[delivery_id] = "closed"
        with suppress(RPCError):  # it is over
            await handle.signal(NEWS.name, {"key": DONE, "value": value, "delivery_id": delivery_id})
            self.told[delivery_id] = "accepted"

    async def _abort(self, slot: int) -> None:
        await self.on.harness.abort(self.call(slot))

    def _living(self) -> list[Child]:
        return [child for child in self.on.workers if child.pid is not None]

    async def _kill(self, _: int) -> None:
        if living := self._living():
            await self.rng.choice(living).kill()

    async def _term(self, _: int) -> None:
        if living := self._living():
            assert await self.on.stop(self.rng.choice(living)) == 0

    async def _start(self, _: int) -> None:
        if len(self._living()) < MOST_WORKERS:
            await self.on.worker()


@dataclass(frozen=True)
class After:
    """What is left of one call: its result, what its woken runs had found, its runs, and its receipts by their ids."""

    result: str
    code: str
    found: list[str]
    runs: list[Run]
    receipts: dict[str, str]

    @property
    def delivered(self) -> list[str]:
        return [id for id, answer in self.receipts.items() if answer == "delivered"]


@pytest.fixture(scope="module")
async def chaos(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Chaos]:
    """All of it, until the submission is settled."""
    async with ParkedDrill(server, tmp_path_factory.mktemp("chaos"), tracker_url) as on:
        await on.worker()
        rng = random.Random(SEED)
        tools = [rng.choice(["unsafe", "hooked", "safe"]) for _ in range(CALLS)]
        waits = [rng.choice(["", f" {rng.uniform(1, 9):.1f}"]) for _ in range(CALLS)]
        asked = ",".join(f"{tool}{wait}" for tool, wait in zip(tools, waits, strict=True))
        # Two of the kills hit a woken run in the middle.
        submission = await on.submit(asked, die_at=["in the woken run"] * 2)
        made = Chaos(on, submission)
        for slot in range(CALLS):
            await on.parked(made.call(slot))
        for _ in range(STEPS):
            await made.step()
        await made.finish()
        await settled(submission)
        yield made


async def results_of(chaos: Chaos) -> list[Entry]:
    entries = await chaos.on.harness.conversation(chaos.submission.conversation_id).transcript()
    return [entry for entry in entries if entry.kind == "tool_result"]


async def afters(chaos: Chaos) -> AsyncIterator[After]:
    """Each call, in order."""
    runs = chaos.on.runs(chaos.submission.conversation_id)
    for slot, entry in enumerate(await results_of(chaos)):
        assert entry.tool is not None
        assert isinstance(entry.message, ToolMessage)
        handle = chaos.on.harness.client.get_workflow_handle(chaos.call(slot))
        receipts = await handle.query(RECEIPTS, result_type=list[Receipt])
        yield After(
            result=entry.message.text,
            code=entry.tool.code,
            found=[line["found"] for line in chaos.on.lines("seen") if line["title"] == str(slot)],
            runs=[run for run in runs if run.title == str(slot)],
            receipts={receipt.delivery_id: receipt.answer for receipt in receipts},
        )


async def test_every_call_has_one_result_and_no_workflow_task_failed(chaos: Chaos) -> None:
    found = await results_of(chaos)
    told = await account(chaos.on.harness.client, chaos.submission.conversation_id)

    assert [entry.tool and entry.tool.task_id for entry in found] == [chaos.call(slot) for slot in range(CALLS)]
    assert [text for text in told.failed_tasks if UNHANDLED not in text] == []


async def test_tool_saw_exactly_the_value_whose_receipt_says_delivered(chaos: Chaos) -> None:
    async for after in afters(chaos):
        taken = [chaos.sent[id] for id in after.delivered]
        seen = sorted(set(after.found))
        if after.code in UNSEEN:
            assert seen in ([], taken, ["expired"]), after
        else:
            assert ([after.result], seen) == (taken or ["expired"],) * 2, after


async def test_everything_that_was_sent_has_one_answer(chaos: Chaos) -> None:
    kept = [receipts async for after in afters(chaos) for receipts in after.receipts.items()]
    answers = dict(kept)

    assert len(answers) == len(kept)
    accepted = {id for id, answer in chaos.told.items() if answer == "accepted"}
    assert accepted - answers.keys() == set()
    assert {id for id, answer in answers.items() if answer != chaos.told[id]} <= accepted
    junk = {id for id, text in chaos.sent.items() if text == "junk"} & answers.keys()
    assert {answers[id] for id in junk} <= {"invalid", "closed"}


async def test_unsafe_tool_began_at_most_once_for_each_intent(chaos: Chaos) -> None:
    async for after in afters(chaos):
        keys = [run.key for run in after.runs if run.tool in ("unsafe", "hooked")]

        assert len(set(keys)) == len(keys), after
