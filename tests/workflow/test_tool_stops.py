"""What a Stop does to tools: soon, bottom up, one aborted result for each open call (spec §4.7, §7.4)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from tarry.api import ToolApi
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.held import HeldTool
from tests.support.stage import app_of, idle_stage, stage
from tests.support.waiting import PATIENCE


async def test_stop_ends_tools_that_block_and_meanwhile_others_go_on(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger: list[str] = []
    release, both = threading.Event(), threading.Barrier(3, timeout=30)

    @tool
    def blocks_its_thread() -> None:
        ledger.append("thread")
        both.wait()
        release.wait(60)

    @tool
    async def never_awaits() -> None:
        ledger.append("loop")
        both.wait()
        release.wait(60)

    def decide(request: Any) -> Any:
        if request.messages[-1].text == "block":
            return calls(call("blocks_its_thread"), call("never_awaits"))
        return say("here")

    app = app_of(ScriptedModel.for_each_input([decide, say("unused")]), blocks_its_thread, never_awaits)
    async with stage(server, app, tmp_path, heartbeat_timeout=2.0) as on:
        blocked, other = on.harness.conversation(), on.harness.conversation()
        submission = await blocked.submit("block")
        await asyncio.to_thread(both.wait)
        # Longer than a silent worker is taken for alive: an unsafe tool is not started again by that.
        enough = asyncio.get_running_loop().time() + 3
        while asyncio.get_running_loop().time() < enough:
            assert (await ask(other, "are you there?")).text == "here"
        async with asyncio.timeout(PATIENCE):
            await blocked.abort()
            answer = await answer_to(blocked, submission)
        afterwards = await ask(blocked, "and now?")
        release.set()

    assert answer.end == "unanswered aborted"
    assert answer.codes == ["aborted", "aborted"]
    assert sorted(ledger) == ["loop", "thread"]
    assert (afterwards.end, afterwards.text) == ("done", "here")


async def test_stopped_tool_cleans_up_and_finished_siblings_keep_their_results(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    begun, cleaned = threading.Event(), []

    @tool
    async def builds(number: int, api: ToolApi) -> None:
        api.output(f"build {number} is queued")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(number)

    @tool
    def looks() -> str:
        return "seen"

    script: list[Step] = [calls(call("looks"), call("builds", number=7), call("looks")), say("never asked for")]
    async with stage(server, app_of(ScriptedModel(script), builds, looks), tmp_path, heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("build it")
        await asyncio.to_thread(begun.wait, 30)
        await conversation.abort()
        answer = await answer_to(conversation, submission)

    assert (answer.end, cleaned) == ("unanswered aborted", [7])
    assert answer.codes == ["", "aborted", ""]
    assert answer.texts[1].startswith("build 7 is queued\n")
    assert "aborted on request while it ran" in answer.texts[1]


async def test_calls_that_no_worker_had_begun_are_aborted_as_such(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    script: list[Step] = [calls(call("work", what="a"), call("work", what="b")), say("never asked for")]
    app = app_of(ScriptedModel(script), held.tool)
    async with stage(server, app, tmp_path, heartbeat_timeout=4.0, max_concurrent_activities=1) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await held.begun()
        await conversation.abort()
        answer = await answer_to(conversation, submission)

    assert len(held.ledger) == 1
    began = [f"working on {held.ledger[0]}" in text for text in answer.texts]
    assert [("while it ran" in text, "before it was started" in text) for text in answer.texts] == [
        (ran, not ran) for ran in began
    ]


async def test_stop_in_the_very_task_that_turns_a_run_over_is_not_lost(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    app = app_of(ScriptedModel([call("work", what="a"), say("still here")]), held.tool)
    async with idle_stage(server, app, tmp_path, shutdown_grace=0, turnover_events=10) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("go")
            await held.begun()
        run = (await submission.status()).generation_id if submission.view is None else submission.view.generation_id
        await on.client.get_workflow_handle(f"{run}/t1.0").terminate()
        await on.client.get_workflow_handle(run).cancel()
        async with on.worker():
            answer = await answer_to(conversation, submission)
            afterwards = await ask(conversation, "still there?")

    assert (answer.end, answer.codes) == ("unanswered aborted", ["aborted"])
    assert (afterwards.end, afterwards.text) == ("done", "still here")
