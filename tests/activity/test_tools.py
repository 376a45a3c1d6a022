from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tarry.api import ToolApi
from tarry.core.protocol import GIVEN_BACK, RETRY_TOOL, Progress, Reconciliation, ToolOutcome
from tarry.tools import RetryTool, tool
from tests.support.tool_bench import RUN_AFTER_RESET, Bench, intent


async def test_tool_this_worker_lacks_is_not_here(bench: Bench) -> None:
    @tool
    def known() -> str:
        raise AssertionError("ran")

    outcome = await bench.run(known, tool="unknown")

    assert (outcome.code, outcome.facts.details) == ("not_here", None)


async def test_worker_that_lacks_a_tool_tells_that_an_earlier_attempt_had_begun(bench: Bench) -> None:
    @tool
    def known() -> str:
        raise AssertionError("ran")

    bench.informed(attempt=2, heartbeat_details=[{"text": "half"}])
    outcome = await bench.run(known, tool="unknown")

    assert (outcome.code, outcome.facts.details) == ("not_here", "half")


async def test_worker_that_lacks_a_tool_after_a_reset_cannot_say_that_it_never_ran(bench: Bench) -> None:
    @tool
    def known() -> str:
        raise AssertionError("ran")

    bench.informed(workflow_run_id=RUN_AFTER_RESET)
    outcome = await bench.run(known, tool="unknown")

    assert (outcome.code, outcome.facts.details) == ("not_here", "")


async def test_arguments_that_no_longer_fit_run_nothing(bench: Bench) -> None:
    @tool
    def pay(amount: int) -> str:
        raise AssertionError("ran")

    outcome = await bench.run(pay, arguments={"amount": "much"})

    assert (outcome.code, outcome.is_error) == ("invalid_arguments", True)
    assert "amount" in outcome.text


@pytest.mark.parametrize(("run", "attempt"), [(1, 2), (2, 1)])
async def test_rerun_is_vetoed_by_a_current_unsafe_declaration(bench: Bench, run: int, attempt: int) -> None:
    @tool
    def pay() -> str:
        raise AssertionError("ran")

    bench.informed(attempt=attempt, heartbeat_details=[{"text": "asked the bank\n"}])
    outcome = await bench.run(pay, run=run, replay="safe")

    assert outcome.code == "interrupted"
    assert outcome.text.startswith("asked the bank\n")


async def test_hook_is_asked_before_a_vetoed_rerun_is_interrupted(bench: Bench) -> None:
    @tool(reconcile=lambda: "paid before")
    def pay() -> str:
        raise AssertionError("ran")

    assert await bench.informed(attempt=2).run(pay, replay="safe") == ToolOutcome(text="paid before")


async def test_current_safe_declaration_never_upgrades_a_stored_unsafe_one(bench: Bench) -> None:
    @tool(replay="safe")
    def pay() -> str:
        raise AssertionError("ran")

    outcome = await bench.informed(attempt=2).run(pay, replay="unsafe")

    assert outcome.code == "interrupted"


async def test_unsafe_tool_is_not_run_after_a_reset_of_its_call(bench: Bench) -> None:
    @tool
    def pay() -> str:
        raise AssertionError("ran")

    outcome = await bench.informed(workflow_run_id=RUN_AFTER_RESET).run(pay)

    assert outcome.code == "interrupted"


async def test_hook_is_asked_after_a_reset_of_an_unsafe_call(bench: Bench) -> None:
    @tool(reconcile=lambda: "paid before")
    def pay() -> str:
        raise AssertionError("ran")

    assert await bench.informed(workflow_run_id=RUN_AFTER_RESET).run(pay) == ToolOutcome(text="paid before")


async def test_safe_tool_runs_again_after_a_reset_and_is_told_so(bench: Bench) -> None:
    @tool(replay="safe")
    def fetch(api: ToolApi) -> int:
        return api.attempt

    assert await bench.informed(workflow_run_id=RUN_AFTER_RESET).run(fetch) == ToolOutcome(text="2")


async def test_unsafe_tool_runs_after_a_worker_that_did_not_have_it(bench: Bench) -> None:
    @tool
    def pay() -> str:
        return "paid"

    assert await bench.run(pay, run=2) == ToolOutcome(text="paid")


async def test_rerun_whose_arguments_no_longer_fit_may_have_run(bench: Bench) -> None:
    @tool(replay="safe")
    def pay(amount: int) -> str:
        raise AssertionError("ran")

    outcome = await bench.run(pay, run=2, arguments={"amount": "much"})

    assert outcome.code == "interrupted"


async def test_rerun_that_its_call_no_longer_waits_for_runs_nothing(bench: Bench) -> None:
    @tool(replay="safe")
    def pay() -> str:
        raise AssertionError("ran")

    outcome = await bench.informed(attempt=2).run(pay)

    assert outcome.code == "interrupted"


async def test_safe_tool_that_asks_to_be_run_again_is_retried_by_temporal(bench: Bench) -> None:
    @tool(replay="safe")
    def fetch(api: ToolApi) -> str:
        api.output("try\n")
        raise RetryTool("busy")

    with pytest.raises(ApplicationError) as raised:
        await bench.run(fetch)

    assert (raised.value.type, raised.value.non_retryable) == (RETRY_TOOL, False)
    assert raised.value.details == (Progress(text="try\n"),)


async def test_unsafe_tool_that_asks_to_be_run_again_is_an_error_result(bench: Bench) -> None:
    @tool
    def fetch() -> str:
        raise RetryTool("busy")

    outcome = await bench.run(fetch)

    assert outcome.code == "tool_error"
    assert "RetryTool: busy" in outcome.text


async def test_reconcile_hook_answers_with_a_result(bench: Bench) -> None:
    def did_it(title: str, api: ToolApi) -> str | None:
        return f"{title} is open as 7 ({api.idempotency_key})"

    @tool(reconcile=did_it)
    def open_ticket(title: str, body: str) -> str:
        raise AssertionError("ran")

    answer = await bench.reconcile(open_ticket, arguments={"title": "disk full", "body": "…"})

    assert answer == Reconciliation(outcome=ToolOutcome(text="disk full is open as 7 (key-1)"))


def knows_nothing() -> None:
    return None


async def fails() -> None:
    raise OSError("no network")


@pytest.mark.parametrize("hook", [None, knows_nothing, fails])
async def test_hook_without_an_answer_is_never_fatal(bench: Bench, hook: Callable[[], Awaitable[None]] | None) -> None:
    @tool(reconcile=hook)
    def open_ticket() -> str:
        raise AssertionError("ran")

    assert await bench.reconcile(open_ticket) == Reconciliation()


async def test_reconcile_of_a_tool_not_here_is_asked_elsewhere(bench: Bench) -> None:
    @tool
    def known() -> str:
        raise AssertionError("ran")

    with pytest.raises(ApplicationError) as raised:
        await bench.environment.run(bench.activities(known).reconcile, intent(known, tool="unknown"))

    assert not raised.value.non_retryable


async def test_reconcile_hook_is_asked_before_a_safe_tool_runs_again(bench: Bench) -> None:
    runs: list[str] = []

    @tool(replay="safe", reconcile=lambda api: "7" if runs else None)
    def open_ticket() -> str:
        runs.append("opened")
        return "7"

    first = await bench.run(open_ticket)
    again = await bench.run(open_ticket, run=2)

    assert (first, again, runs) == (ToolOutcome(text="7"), ToolOutcome(text="7"), ["opened"])


@pytest.mark.parametrize(("replay", "kind"), [("unsafe", GIVEN_BACK), ("safe", None)])
async def test_our_own_failure_is_never_a_reason_to_run_again(bench: Bench, replay: Any, kind: str | None) -> None:
    @tool(replay=replay)
    def pay() -> str:
        raise AssertionError("ran")

    bench.informed(workflow_run_id=RUN_AFTER_RESET, heartbeat_details=["not ours"])

    with pytest.raises(ApplicationError) as raised:
        await bench.run(pay, arguments={"unknown": 1})

    assert (raised.value.type, raised.value.non_retryable) == (kind, True)
