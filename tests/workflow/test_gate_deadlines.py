"""What an approval keeps over time: its deadline, its end, and what the conversation had selected (spec §3.9, §5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent

from signals.parking import Sleep
from tarry.app import App, Extension
from tarry.core.agent import Agent
from tarry.core.protocol import RunSettings
from tarry.embedded import EmbeddedServer
from tarry.gates import DECISION, approvals
from tarry.hooks import Block, Gate, HookApi, HookCall
from tarry.testing import ScriptedModel, Step, call, say
from tarry.tools import tool
from tests.support.answers import answer_to
from tests.support.gating import Gated, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, YES
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
SPAN = timedelta(seconds=20)


def always(call: HookCall) -> bool:
    return True


async def asked(on: Stage, conversation_id: str, count: int) -> list[Gated]:
    """The calls of a conversation that are parked before their intent, in call order, once there are so many."""

    async def found() -> list[str]:
        query = f'TarryConversation = "{conversation_id}" AND TarryState = "gated"'
        return sorted([one.id async for one in on.client.list_workflows(query)])

    ids = await eventually(found, lambda ids: len(ids) == count)
    return [Gated(on.client, id, DECISION.name) for id in ids]


async def test_the_deadline_is_fixed_once_over_restarts_reasks_and_turns_of_the_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, settings = Ledger(), RunSettings(heartbeat_timeout=4.0, turnover_events=30)
    app = gated_app(ledger.edit, approvals(always, deadline=SPAN))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", settings, path="a.txt")
            first = await waiting.asks()
        async with on.worker():
            for number in range(4):
                assert (await waiting.reasked(f"deploy {number}")).until == first.until
            outcome = await waiting.ends()
            runs = await waiting.runs()

    assert outcome.code == "expired"
    assert first.since is not None
    assert first.until is not None
    assert time_of(runs[0][0]) + SPAN <= first.until <= first.since + SPAN
    assert abs(fires_at(runs[-1]) - first.until) < timedelta(milliseconds=10)
    assert first.until <= time_of(runs[-1][-1])
    assert len(runs) >= 2


def time_of(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(tzinfo=UTC)


def fires_at(run: list[HistoryEvent]) -> datetime:
    """When the last timer of a run is due."""
    timer = [event for event in run if event.HasField("timer_started_event_attributes")][-1]
    task = run[timer.timer_started_event_attributes.workflow_task_completed_event_id - 1]
    began = run[task.workflow_task_completed_event_attributes.started_event_id - 1]
    return time_of(began) + timer.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()


async def test_a_span_is_a_deadline_that_is_fixed_once_whatever_a_gate_says_when_asked_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = gate(lambda call, api: Sleep(signals=[ANSWER.key("go")], until=HOUR))
    async with stage(server, gated_app(Ledger().edit, waits), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        first = await waiting.asks()
        again = await waiting.reasked("another")

    assert again.until == first.until


async def test_an_expired_question_stays_expired_for_every_later_pass(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[str] = []
    asks = approvals(always, deadline=timedelta(seconds=1))
    assert asks.hooks is not None
    ask_person = asks.hooks.before_tool
    assert ask_person is not None

    async def defaults(call: HookCall, api: HookApi) -> Gate:
        answer = await ask_person(call, api)  # type: ignore[misc]
        seen.append(type(answer).__name__)
        return None if isinstance(answer, Block) else answer

    def waits(call: HookCall, api: HookApi) -> Gate:
        return None if api.read_signal_sync(ANSWER, "on") else Sleep(signals=[ANSWER.key("on")])

    ledger = Ledger()
    app = gated_app(ledger.edit, gate(defaults, signals=[DECISION]), gate(waits, name="waits"))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.waits_for(ANSWER.key("on"))
        async with on.worker():
            await waiting.update("on", YES, signal=ANSWER.name)
            outcome = await waiting.ends()

    assert (seen, outcome.code, len(ledger.runs)) == (["Sleep", "Block", "Block"], "", 1)


async def test_what_a_conversation_selected_outlives_the_wait_and_a_deploy_with_other_defaults(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    offered: list[list[str]] = []

    @tool
    def shell(command: str) -> str:
        """Run a command."""
        return f"ran {command}"

    ledger = Ledger()
    steps: list[Step] = [call("edit", path="a.txt"), say("done")]
    model = ScriptedModel(steps, on_request=lambda request: offered.append([spec.name for spec in request.tools]))
    editing = [Extension("editing", [ledger.edit]), approvals(always)]
    late = [Extension("shells", [shell]), gate(lambda call, api: Block("locked down"), name="locked")]
    async with idle_stage(server, App(model=model, extensions=editing), tmp_path, max_turns=5) as on:
        conversation = on.harness.conversation(agent=Agent(extensions=("editing", "approvals")))
        async with on.worker():
            submission = await conversation.submit("go")
            (waiting,) = await asked(on, conversation.id, 1)
        async with on.worker(App(model=model, instructions="Others.", extensions=[*editing, *late])):
            await waiting.decide(allow=True)
            answer = await answer_to(conversation, submission)

    assert (answer.codes, len(ledger.runs)) == ([""], 1)
    assert offered == [["edit"], ["edit"]]
