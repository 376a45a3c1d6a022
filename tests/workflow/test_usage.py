"""What conversations spend, by model and tool, and what it cost at the prices of the day (spec §7.8)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tarry import Agent, App, Extension, Ledger, Sleep, Spent, ToolApi, Usage, tool
from tarry.embedded import EmbeddedServer
from tarry.models import ModelInfo, Prices
from tarry.testing import ScriptedModel, Step, call, calls, fail, say
from tests.support.answers import ask
from tests.support.held import HeldTool
from tests.support.stage import stage

CHEAP = ModelInfo(prices=Prices(input=Decimal(1), output=Decimal(10)))
DEAR = ModelInfo(prices=Prices(input=Decimal(1_000), output=Decimal(10_000)))


@tool
def search(what: str, api: ToolApi) -> str:
    """Search by a model of its own."""
    api.usage(Usage(input_tokens=100, output_tokens=1, cost=Decimal("0.25")))
    api.usage(Usage(input_tokens=10))
    return f"found {what}"


@tool(replay="safe")
async def delegate(what: str, api: ToolApi) -> str:
    """Search by another tool."""
    api.usage(Usage(input_tokens=5, cost=Decimal(1)))
    return (await api.execute_tool("search", {"what": what}, key="one")).text


@tool(replay="safe")
def nap(what: str, api: ToolApi) -> str | Sleep:
    """Report, sleep a little, and report again."""
    api.usage(Usage(input_tokens=1, cost=Decimal(1)))
    return "slept" if api.wake else Sleep(until=timedelta(seconds=1))


@tool
def broken(what: str, api: ToolApi) -> str:
    """Report, and fail."""
    api.usage(Usage(input_tokens=7, cost=Decimal(2)))
    raise ValueError(what)


def app_of(*steps: Step, info: ModelInfo = CHEAP) -> App:
    model = ScriptedModel.for_each_input([*steps, say("12345678")], info=info)
    return App(model=model, extensions=[Extension("test", [search, delegate, nap, broken])])


def costing(cost: str, **tokens: int) -> Usage:
    return Usage(cost=Decimal(cost), **tokens)


async def test_every_request_is_costed_at_the_prices_of_its_day(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "1234")
    async with on.worker(app_of(info=DEAR)):
        answer = await ask(conversation, "1234")
        ledger = await conversation.usage()

    # 1 token in and 2 out; then 4 in and 2 out.
    costs = [entry.usage.cost for entry in answer.entries if entry.usage]
    assert costs == [Decimal("0.000021"), Decimal("0.024")]
    assert ledger == Ledger(
        models={"scripted/1": Spent(reports=2, usage=costing("0.024021", input_tokens=5, output_tokens=4))}
    )


async def test_tools_report_once_whether_nested_parked_or_failed(server: EmbeddedServer, tmp_path: Path) -> None:
    steps = calls(call("delegate", what="a"), call("nap", what="b"), call("broken", what="c"), call("search", what="d"))
    async with stage(server, app_of(steps), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        ledger = await conversation.usage()

    assert answer.end == "done"
    searched = costing("0.25", input_tokens=110, output_tokens=1)
    assert ledger.tools == {
        "search": Spent(reports=2, usage=searched + searched),
        "delegate": Spent(reports=1, usage=costing("1", input_tokens=5)),
        "nap": Spent(reports=2, usage=costing("2", input_tokens=2)),
        "broken": Spent(reports=1, usage=costing("2", input_tokens=7)),
    }
    assert set(answer.facts[0].spent.tools) == {"delegate", "search"}


async def test_failed_requests_are_counted_and_of_those_that_told_nothing_the_cost_is_open(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(fail("retryable", "down", times=1)), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "1234")
        ledger = await conversation.usage()

    assert ledger.total == Spent(reports=2, unpriced=1, usage=costing("0.000021", input_tokens=1, output_tokens=2))


async def test_all_conversations_are_added_up_with_no_worker_up_also_after_a_turn_of_a_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(), tmp_path, turnover_events=10) as on:
        for name in ("usage-a", "usage-b"):
            for content in ("1234", "1234", "1234"):
                await ask(on.harness.conversation(name), content)
        exact = await on.harness.conversation("usage-a").usage()
        turns = await on.client.count_workflows('WorkflowId = "usage-a"')
        await on.harness.conversation("usage-c", agent=Agent(cwd="/x")).configure(cwd="/y")

    report = await on.harness.usage()
    assert turns.count > 1
    assert report.conversations == {"usage-a": exact, "usage-b": exact}
    assert report.total.total.reports == 6
    assert report.total.total.usage == exact.total.usage + exact.total.usage


@pytest.mark.parametrize("spent", [Usage(input_tokens=-1), Usage(cost=Decimal(-1))])
async def test_a_report_of_less_than_nothing_is_refused(server: EmbeddedServer, tmp_path: Path, spent: Usage) -> None:
    @tool
    def cheat(what: str, api: ToolApi) -> str:
        """Report less than nothing."""
        api.usage(spent)
        return what

    app = App(
        model=ScriptedModel.for_each_input([call("cheat", what="x"), say("done")]), extensions=[Extension("c", [cheat])]
    )
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert "cannot be less than nothing" in answer.texts[0]


async def test_a_run_that_is_lost_leaves_what_it_had_spent(server: EmbeddedServer, tmp_path: Path) -> None:
    work = HeldTool()
    model = ScriptedModel.for_each_input([call("search", what="a"), call("work", what="b"), say("done")], info=CHEAP)
    app = App(model=model, extensions=[Extension("test", [search, work.tool])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("1234")
        await work.begun()
        during = await conversation.usage()
        generation = (await conversation.view()).open_generation
        assert generation is not None
        await on.client.get_workflow_handle(generation).terminate()
        work.go.set()
        settled = await submission.wait()
        after = await conversation.usage()

    assert settled.reason == "lost"
    assert during == after
    assert (after.models["scripted/1"].reports, after.tools["search"].reports) == (2, 1)
