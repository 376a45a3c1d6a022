"""Durable tasks: phases with a checkpoint, started by a program, a tool or a commit (spec §1.1, §4.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from tarry import (
    App,
    DurableTask,
    Expired,
    Extension,
    Go,
    Hooks,
    Outcome,
    Received,
    RequestConflict,
    Signal,
    Sleep,
    ToolApi,
)
from tarry.core.protocol import DURABLE_TASK
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually


class Answered(BaseModel):
    text: str


ANSWER = Signal("app.answer", 1, Answered)
HOUR = timedelta(hours=1)


class Ledger(list[str]):
    """What the phases did, in order."""


def asking(ledger: Ledger, until: timedelta = HOUR) -> DurableTask[str, str]:
    """Asks a person in one phase, reads the answer in another, and is told of a Stop."""
    task = DurableTask("app.ask", str, str)

    @task.phase
    async def ask(question: str, api: ToolApi) -> Go:
        ledger.append(f"ask {await api.memo('asked', question)}")
        return Go("wait", {"asked": question})

    @task.phase
    def wait(question: str, api: ToolApi) -> Sleep:
        ledger.append(f"wait with {api.checkpoint}")
        return Sleep(checkpoint=Go("read", 7), until=until, signals=[ANSWER.key("answer")], ask=question)

    @task.phase
    async def read(question: str, api: ToolApi) -> str:
        ledger.append(f"read with {api.checkpoint}, woken by {api.wake}")
        match await api.read_signal(ANSWER, "answer"):
            case Received(value=value):
                return value.text
            case Expired():
                return "nobody answered"
            case _:
                raise AssertionError("it woke for nothing")

    @task.abort
    async def stopped(question: str, api: ToolApi) -> None:
        ledger.append(f"stopped with {api.checkpoint}, having asked {await api.memo('asked', 'nothing')}")

    return task


def app_with(*tasks: DurableTask[str, str]) -> App:
    return App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", signals=[ANSWER], tasks=tasks)])


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def asked(server: EmbeddedServer, tmp_path: Path, ledger: Ledger) -> AsyncIterator[Stage]:
    async with stage(server, app_with(asking(ledger)), tmp_path) as on:
        yield on


async def is_parked(on: Stage, task_id: str) -> None:
    await eventually(lambda: on.harness.task(task_id), lambda view: view.state == "sleeping")


async def test_a_task_goes_from_phase_to_phase_with_its_checkpoint_and_ends_with_its_result(
    asked: Stage, ledger: Ledger
) -> None:
    task = await asked.harness.start_task(asking(ledger), "why?", key="one")
    await is_parked(asked, task.id)
    delivered = await asked.harness.signal(task.id, ANSWER, "answer", Answered(text="because"))

    assert (task.id, delivered.answer) == ("task-one", "delivered")
    assert await task.outcome() == Outcome("completed", "because")
    assert ledger == [
        "ask why?",
        "wait with {'asked': 'why?'}",
        "read with 7, woken by signal app.answer/answer",
    ]
    assert (await asked.harness.signal(task.id, ANSWER, "answer", Answered(text="late"))).answer == "closed"


async def test_a_task_whose_deadline_passes_reads_that_its_key_expired(
    server: EmbeddedServer, tmp_path: Path, ledger: Ledger
) -> None:
    quick = asking(ledger, timedelta(0))
    async with stage(server, app_with(quick), tmp_path) as on:
        task = await on.harness.start_task(quick, "why?")

        assert await task.outcome() == Outcome("completed", "nobody answered")
        assert ledger[-1] == "read with 7, woken by expired"


async def test_a_task_that_is_stopped_runs_its_abort_handler_with_its_last_checkpoint(
    asked: Stage, ledger: Ledger
) -> None:
    task = await asked.harness.start_task(asking(ledger), "why?")
    await is_parked(asked, task.id)
    await asked.harness.abort(task.id)

    assert await task.outcome() == Outcome("aborted")
    assert ledger[-1] == "stopped with 7, having asked why?"


async def test_the_same_key_gives_the_same_task_and_another_input_under_it_is_a_conflict(
    asked: Stage, ledger: Ledger
) -> None:
    kind = asking(ledger)
    first = await asked.harness.start_task(kind, "why?", key="twice")
    again = await asked.harness.start_task(kind, "why?", key="twice")

    assert again.id == first.id
    with pytest.raises(RequestConflict):
        await asked.harness.start_task(kind, "how?", key="twice")
    await asked.harness.abort(first.id)
    await first.outcome()


async def test_a_phase_that_raises_fails_its_task_with_the_text(server: EmbeddedServer, tmp_path: Path) -> None:
    broken = DurableTask("app.broken", str, str)

    @broken.phase
    def begin(question: str) -> str:
        raise ValueError(f"no answer to {question}")

    async with stage(server, app_with(broken), tmp_path) as on:
        outcome = await (await on.harness.start_task(broken, "why?")).outcome()

    assert (outcome.status, outcome.result) == ("failed", None)
    assert "ValueError: no answer to why?" in outcome.error


async def test_an_unknown_phase_and_a_result_of_another_type_fail_the_task(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    lost, wrong = DurableTask("app.lost", str, str), DurableTask("app.wrong", str, str)

    @lost.phase
    def begin(question: str) -> Go:
        return Go("nowhere")

    @wrong.phase
    def answer(question: str) -> int:
        return 7

    async with stage(server, app_with(lost, wrong), tmp_path) as on:
        ends = [await (await on.harness.start_task(task, "why?")).outcome() for task in (lost, wrong)]

    assert [end.status for end in ends] == ["failed", "failed"]
    assert "no phase 'nowhere'; it has begin" in ends[0].error


async def test_a_task_parked_by_an_older_version_goes_on_in_the_phases_of_today(
    server: EmbeddedServer, tmp_path: Path, ledger: Ledger
) -> None:
    old = asking(ledger)
    new: DurableTask[str, str] = DurableTask(
        "app.ask", str, str, version=2, migrate=lambda phase, data, version: (f"{phase}_v{version + 1}", data + 1)
    )

    @new.phase
    def read_v2(question: str, api: ToolApi) -> str:
        return f"{api.checkpoint} in version 2"

    async with stage(server, app_with(old), tmp_path) as on:
        task = await on.harness.start_task(old, "why?")
        await is_parked(on, task.id)
    async with on.worker(app_with(new)):
        await on.harness.signal(task.id, ANSWER, "answer", Answered(text="because"))

        assert await task.outcome() == Outcome("completed", "8 in version 2")


async def test_a_task_of_many_steps_continues_as_new_between_them(server: EmbeddedServer, tmp_path: Path) -> None:
    counting = DurableTask("app.count", int, int)

    @counting.phase
    async def step(upto: int, api: ToolApi) -> Go | int:
        reached = (api.checkpoint or 0) + 1
        await api.memo(f"step {reached}", reached)
        return reached if reached == upto else Go("step", reached)

    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[counting])])
    async with stage(server, app, tmp_path, turnover_events=40) as on:
        task = await on.harness.start_task(counting, 12)

        assert await task.outcome() == Outcome("completed", 12)
        runs = [found async for found in on.client.list_workflows(f'WorkflowId = "{task.id}"')]
        assert len(runs) > 1


async def test_children_of_a_call_are_found_by_their_key_and_stopped_when_the_call_settles(
    server: EmbeddedServer, tmp_path: Path, ledger: Ledger
) -> None:
    child = asking(ledger)
    created: list[str] = []

    @tool
    async def delegate(question: str, api: ToolApi) -> str:
        created.append((await api.create_task(child, question, key="a/b")).task_id)
        created.append((await api.create_task(child, question, key="a/b")).task_id)
        with pytest.raises(ValueError, match="another task or input"):
            await api.create_task(child, "something else", key="a/b")
        return "delegated"

    model = ScriptedModel([calls(call("delegate", question="why?")), say("done")])
    app = App(model=model, extensions=[Extension("test", [delegate], [ANSWER], [child])])
    async with stage(server, app, tmp_path) as on:
        await ask(on.harness.conversation(), "go")
        ended = await on.client.get_workflow_handle(created[0]).result()

    assert created[0] == created[1]
    assert "/g1/t1.0/k.#" in created[0]
    assert ended["status"] == "aborted"


async def test_lists_show_a_durable_task_like_any_other_parked_work(asked: Stage, ledger: Ledger) -> None:
    task = await asked.harness.start_task(asking(ledger), "why?")
    await is_parked(asked, task.id)

    async def listed() -> list[tuple[str, str, str]]:
        return [(item.id, item.state, item.tool) async for item in asked.harness.work() if item.id == task.id]

    assert await eventually(listed, lambda found: found == [(task.id, "sleeping", "app.ask")])
    assert (await asked.client.get_workflow_handle(task.id).describe()).workflow_type == DURABLE_TASK
    await asked.harness.abort(task.id)
    await task.outcome()


async def test_hooks_of_a_task_are_asked_in_the_order_of_extensions_and_the_task_judges_their_answers(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    sending: DurableTask[str, str] = DurableTask("app.send", str, str)

    @sending.phase
    async def begin(text: str, api: ToolApi) -> Sleep | str:
        blocks = await api.ask_hooks("before_send", text)
        return "blocked: " + ", ".join(blocks) if blocks and api.wake else Sleep(until=timedelta(0))

    async def careful(text: str, api: ToolApi) -> str | None:
        return f"careful about {text}" if api.wake else None

    def broken(text: str, api: ToolApi) -> str:
        raise ValueError("broken")

    wanted = ("app.send", "before_send")
    extensions = [
        Extension("base", tasks=[sending]),
        Extension("one", hooks=Hooks(of_tasks={wanted: careful})),
        Extension("two", hooks=Hooks(of_tasks={wanted: broken})),
        Extension("three", hooks=Hooks(of_tasks={wanted: lambda text, api: "no"})),
    ]
    async with stage(server, App(model=ScriptedModel([say("unused")]), extensions=extensions), tmp_path) as on:
        task = await on.harness.start_task(sending, "mail")

        assert await task.outcome() == Outcome("completed", "blocked: careful about mail, no")
