"""When a tool runs, how often, and what stops it (spec §4.3 to §4.7)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tarry.api import TaskFull, ToolApi
from tarry.core import task
from tarry.core.resolve import MAX_CALLS
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Step, call, calls, fail, say
from tarry.tools import RetryTool, tool
from tests.support.answers import answer_to, ask
from tests.support.held import HeldTool
from tests.support.stage import app_of, idle_stage, stage
from tests.support.waiting import eventually


async def test_finished_tool_is_not_run_again_when_the_next_request_fails(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger: list[str] = []

    @tool
    def shell(command: str) -> str:
        ledger.append(command)
        return "deployed"

    script: list[Step] = [
        call("shell", command="deploy"),
        fail("permanent", "HTTP 400: bad request"),
        say("It is deployed."),
    ]
    async with stage(server, app_of(ScriptedModel(script), shell), tmp_path) as on:
        conversation = on.harness.conversation()
        failed = await ask(conversation, "deploy it")
        answered = await ask(conversation, "is it deployed?")

    assert (failed.end, failed.detail) == ("unanswered model_error", "HTTP 400: bad request")
    assert failed.kinds == ["user", "assistant", "tool_result"]
    assert (answered.end, answered.text) == ("done", "It is deployed.")
    assert answered.kinds == ["user", "assistant", "tool_result", "user", "assistant"]
    assert ledger == ["deploy"]


async def test_error_of_a_tool_is_told_to_the_model_and_only_a_safe_tool_may_ask_for_another_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    attempts: defaultdict[str, list[int]] = defaultdict(list)

    @tool(replay="safe")
    def raises(api: ToolApi) -> None:
        attempts["raises"].append(api.attempt)
        raise ValueError("page not found")

    @tool(replay="safe")
    def recovers(api: ToolApi) -> str:
        attempts["recovers"].append(api.attempt)
        if api.attempt < 3:
            raise RetryTool("the index is busy")
        return "found"

    @tool(replay="safe")
    async def never_recovers(api: ToolApi) -> None:
        attempts["never_recovers"].append(api.attempt)
        raise RetryTool("the index is gone")

    @tool
    def unsafe(api: ToolApi) -> None:
        attempts["unsafe"].append(api.attempt)
        raise RetryTool("the printer is busy")

    tools = (raises, recovers, never_recovers, unsafe)
    model = ScriptedModel([calls(*(call(used.name) for used in tools)), say("done")])
    async with stage(server, app_of(model, *tools), tmp_path, restart_limit=2) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "done"
    assert attempts == {"raises": [1], "recovers": [1, 2, 3], "never_recovers": [1, 2, 3], "unsafe": [1]}
    assert answer.codes == ["tool_error", "", "tool_error", "tool_error"]
    assert answer.texts[1] == "found"
    for text, error in zip(
        [answer.texts[0], *answer.texts[2:]],
        ["ValueError: page not found", "RetryTool: the index is gone", "RetryTool: the printer is busy"],
        strict=True,
    ):
        assert error in text


async def test_round_with_a_sequential_tool_runs_one_call_at_a_time_in_call_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger: list[str] = []

    @tool(sequential=True)
    def writes(name: str) -> None:
        ledger.append(f"begin {name}")
        ledger.append(f"end {name}")

    @tool
    async def reads(name: str) -> None:
        ledger.append(f"begin {name}")
        await asyncio.sleep(0)
        ledger.append(f"end {name}")

    script: list[Step] = [
        calls(call("reads", name="a"), call("writes", name="b"), call("reads", name="c")),
        say("done"),
    ]
    async with stage(server, app_of(ScriptedModel(script), writes, reads), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "done"
    assert ledger == ["begin a", "end a", "begin b", "end b", "begin c", "end c"]


async def test_calls_of_a_response_run_at_once_and_those_beyond_the_bound_are_refused(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    all_at_once = threading.Barrier(MAX_CALLS)

    @tool
    def meets(number: int) -> str:
        all_at_once.wait(60)
        return str(number)

    total = MAX_CALLS + 3
    script: list[Step] = [calls(*(call("meets", number=number) for number in range(total))), say("done")]
    async with stage(server, app_of(ScriptedModel(script), meets), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "done"
    assert answer.texts[:MAX_CALLS] == [str(number) for number in range(MAX_CALLS)]
    assert answer.codes == [""] * MAX_CALLS + ["too_many_calls"] * 3


async def test_rerun_has_the_key_and_arguments_of_the_first_run_and_an_equal_call_another_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    payments: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    both = threading.Barrier(3, timeout=30)

    @tool(replay="safe")
    def pay(amount: int, api: ToolApi) -> str:
        payments[api.task_id].append((api.idempotency_key, amount, api.attempt))
        if api.attempt == 1:
            both.wait()
            while not api.is_cancelled:
                pass
        return "paid"

    app = app_of(ScriptedModel([calls(call("pay", amount=5), call("pay", amount=5)), say("done")]), pay)
    async with idle_stage(server, app, tmp_path, shutdown_grace=0) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("pay twice")
            await asyncio.to_thread(both.wait)
        async with on.worker():
            answer = await answer_to(conversation, submission)

    assert (answer.end, answer.texts) == ("done", ["paid", "paid"])
    first, second = payments.values()
    assert [(amount, attempt) for _, amount, attempt in (*first, *second)] == [(5, 1), (5, 2)] * 2
    assert first[0][0] == first[1][0] != second[0][0] == second[1][0]


async def test_first_value_of_a_memo_is_kept_over_reruns_and_memos_have_a_quota(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool(replay="safe")
    async def remembers(api: ToolApi) -> str:
        chosen = await api.memo("chosen", f"attempt {api.attempt}")
        if api.attempt == 1:
            raise RetryTool("once more")
        return f"attempt {api.attempt} found {chosen}, {await api.memo('chosen', 'later')}"

    @tool
    def hoards(api: ToolApi) -> str:
        kept = 0
        try:
            while True:
                api.memo_sync(f"page {kept}", "x" * 60 * 1024)
                kept += 1
        except TaskFull:
            return f"{kept} pages, the first still holds {len(api.memo_sync('page 0', 'other'))}"

    app = app_of(ScriptedModel([calls(call("remembers"), call("hoards")), say("done")]), remembers, hoards)
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert answer.texts == ["attempt 2 found attempt 1, attempt 1", "8 pages, the first still holds 61440"]


async def test_tool_declared_unsafe_since_its_intent_is_not_run_again(server: EmbeddedServer, tmp_path: Path) -> None:
    before, after = HeldTool(replay="safe"), HeldTool()
    after.go.set()
    model = ScriptedModel([call("work", what="a"), say("It was interrupted.")])
    async with idle_stage(server, app_of(model, before.tool), tmp_path, shutdown_grace=0) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("go")
            await before.begun()
        async with on.worker(app_of(model, after.tool)):
            answer = await answer_to(conversation, submission)

    assert (answer.end, answer.codes) == ("done", ["interrupted"])
    assert (before.ledger, after.ledger) == (["a"], [])
    assert answer.texts[0].startswith("working on a\n")


async def test_tool_that_a_deploy_took_away_is_unavailable_or_interrupted_if_it_had_begun(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a minute by itself; the pause is a timer, and no timer is shorter than a second.
    monkeypatch.setattr(task, "NOT_HERE_PAUSE", 1.0)
    first, ledger = HeldTool(sequential=True), Counter[str]()

    @tool
    def removed() -> None:
        ledger["removed"] += 1

    @tool(replay="safe")
    def retrying(api: ToolApi) -> None:
        api.output("asked once\n")
        ledger["retrying"] += 1
        raise RetryTool("busy")

    def decide(request: ModelRequest) -> Reply:
        return (
            calls(call("work", what="a"), call("removed"))
            if request.messages[0].text == "0"
            else calls(call("retrying"))
        )

    model = ScriptedModel([decide, say("done")])
    async with idle_stage(server, app_of(model, first.tool, removed, retrying), tmp_path, shutdown_grace=0) as on:
        conversations = [on.harness.conversation(), on.harness.conversation()]
        async with on.worker():
            submissions = [await each.submit(str(number)) for number, each in enumerate(conversations)]
            await first.begun()
            await eventually(lambda: asyncio.sleep(0, ledger["retrying"]))
        async with on.worker(app_of(model)):
            both = zip(conversations, submissions, strict=True)
            unavailable, interrupted = [await answer_to(each, submission) for each, submission in both]
        histories = await on.histories(conversations[0].id)

    assert (unavailable.end, unavailable.codes) == ("done", ["interrupted", "tool_unavailable"])
    assert "It was not run." in unavailable.texts[1]
    [looked_for] = [events for workflow_id, events in histories.items() if workflow_id.endswith("/t1.1")]
    assert (ledger["removed"], looked_for.count("ACTIVITY_TASK_COMPLETED")) == (0, 6)
    assert (interrupted.end, interrupted.codes) == ("done", ["interrupted"])
    assert interrupted.texts[0].startswith("asked once\n")
