"""What a run may cost, counted in histories and queries, never in time.

The bounds follow from the shape. A run without calls: the conversation's tasks for the input, for the run's start and
for its end, the generation's for its start and for the answer. A round adds one call and one model request, and wakes
the generation for the call's start, the call's end and the response.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, Interceptor, OutboundInterceptor, QueryWorkflowInput

from bench.histories import Cost, Run, cost_of, runs_of
from tarry.app import App
from tarry.client import Conversation
from tarry.core.protocol import CONVERSATION, ENTRIES, GENERATION, TOOL_CALL
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.stage import Stage, app_of, idle_stage, stage

TURN_BYTES = 4_000
TURNOVER_EVENTS = 500
"""Some 35 turns: whole runs of the conversation lie on either side of turns 50, 100 and 200."""

EVENTS_OF_A_CALL = 11
EVENTS_IN_THE_CALLER = 3
EVENTS_OF_A_TASK = 3


@tool(replay="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def looking(*whats: str, rounds: int = 1) -> App:
    """An application that looks at everything at once, so many times, and then answers."""
    looks = calls(*(call("look", what=what) for what in whats))
    return app_of(ScriptedModel.for_each_input([looks] * rounds + [say("seen")]), look)


async def converse(conversation: Conversation, text: str = "what is it?") -> None:
    settled = await (await conversation.submit(text)).wait()
    assert settled.status == "done", settled


async def costs_of_two_runs(on: Stage) -> tuple[Cost, Cost]:
    """What the first run of a conversation costs, and what the second adds."""
    conversation = on.harness.conversation()
    await converse(conversation)
    first = await cost_of(on.client, conversation.id)
    await converse(conversation)
    return first, await cost_of(on.client, conversation.id) - first


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_run_of_k_rounds_costs_26k_plus_26_events_and_5k_plus_5_tasks(
    server: EmbeddedServer, tmp_path: Path, rounds: int
) -> None:
    async with stage(server, looking("x", rounds=rounds), tmp_path) as on:
        first, second = await costs_of_two_runs(on)

    assert first.events <= 26 * rounds + 27
    assert second.events <= 26 * rounds + 26
    assert max(first.tasks, second.tasks) <= 5 * rounds + 5


async def test_a_parallel_call_costs_at_most_twenty_events(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, looking(*"abcdefgh"), tmp_path) as on:
        conversation = on.harness.conversation()
        await converse(conversation)
        runs = await runs_of(on.client, conversation.id)

    children = [run.cost.events for run in runs if run.kind == TOOL_CALL]
    assert children == [EVENTS_OF_A_CALL] * 8
    # At the most, each call wakes the generation twice by itself: when it has started and when it ends.
    another = EVENTS_OF_A_CALL + EVENTS_IN_THE_CALLER + 2 * EVENTS_OF_A_TASK
    total = sum((run.cost for run in runs), Cost())
    assert total.events <= 52 + 7 * another
    assert total.tasks <= 10 + 7 * (2 + 2)


@pytest.fixture(scope="module")
async def long_conversation(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> list[list[Run]]:
    """A conversation of 200 turns and more: each of its runs, followed by those of the generations it started."""
    app = app_of(ScriptedModel.for_each_input([say("y" * TURN_BYTES)]))
    async with stage(server, app, tmp_path_factory.mktemp("store"), turnover_events=TURNOVER_EVENTS) as on:
        conversation = on.harness.conversation()
        handle = on.client.get_workflow_handle(conversation.id)
        before = ""
        for turn in itertools.count(1):
            await converse(conversation, f"{turn} ".ljust(TURN_BYTES, "x"))
            run_id = (await handle.describe()).run_id
            if turn > 200 and run_id != before:
                break
            before = run_id
        runs = await runs_of(on.client, conversation.id)
    starts = [place for place, run in enumerate(runs) if run.kind == CONVERSATION]
    return [runs[start:end] for start, end in itertools.pairwise(starts)]


def turns_of(period: list[Run]) -> int:
    return sum(run.kind == GENERATION for run in period)


def test_bytes_of_a_turn_stay_flat_within_ten_percent(long_conversation: list[list[Run]]) -> None:
    per_turn = [sum(run.bytes for run in period) / turns_of(period) for period in long_conversation]

    assert sum(turns_of(period) for period in long_conversation) >= 200
    assert len(per_turn) >= 4
    assert max(per_turn) <= 1.1 * min(per_turn), per_turn


def test_events_of_a_turn_stay_flat_within_ten_percent(long_conversation: list[list[Run]]) -> None:
    per_turn = [sum(run.cost.events for run in period) / turns_of(period) for period in long_conversation]

    assert max(per_turn) <= 1.1 * min(per_turn), per_turn


def test_a_conversation_carries_less_than_128_kib_over_a_turn(long_conversation: list[list[Run]]) -> None:
    conversations = [period[0] for period in long_conversation]

    assert sum(run.count(EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED) for run in conversations) >= 20, "pages sealed"
    assert max(run.input_bytes for run in conversations) < 128 * 1024


class Questions(Interceptor):
    """A client's, in which every question for entries is noted: whom it asked, and up to which entry."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Noting(next, self.asked)


class _Noting(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, asked: list[tuple[str, int]]) -> None:
        super().__init__(next)
        self._asked = asked

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        if input.query == ENTRIES:
            self._asked.append((input.id, input.args[0].upto.index))
        return await super().query_workflow(input)


@contextlib.asynccontextmanager
async def questioned_stage(server: EmbeddedServer, app: App, store: Path) -> AsyncIterator[tuple[Stage, Questions]]:
    """A stage without a worker, whose workers and harness share a client that notes questions."""
    questions = Questions()
    async with idle_stage(server, app, store) as plain:
        client = await Client.connect(
            server.address, data_converter=plain.client.data_converter, interceptors=[questions]
        )
        yield Stage(client, plain.settings, app), questions


async def test_a_model_request_asks_once_and_for_the_newest_entries_only(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with questioned_stage(server, looking("x"), tmp_path) as (on, questions), on.worker():
        conversation = on.harness.conversation()
        for _ in range(3):
            await converse(conversation)
        asked = list(questions.asked)
        nonce = (await conversation.view()).nonce

    # Input, call, result and answer of a run are four entries; the first run tells the prompt too. Its first request
    # lacks the input and the answer before it, its second one the call and the result; the workflows made them, so no
    # activity can have them.
    runs = [f"{conversation.id}~{nonce}/g{run}" for run in (1, 2, 3)]
    expected = [[(conversation.id, 4 * run + 1 + (run > 0)), (runs[run], 4 * run + 4)] for run in range(3)]
    assert asked == [question for run in expected for question in run]


async def test_reading_entries_that_are_cached_asks_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    async with questioned_stage(server, looking("x"), tmp_path) as (on, questions), on.worker():
        conversation = on.harness.conversation()
        await converse(conversation)
        entries = await conversation.transcript()
        questions.asked.clear()
        again = await conversation.transcript()

    assert again == entries
    assert questions.asked == []
