"""Reports: what a child tells before it has ended, read by its parent at its next turn (spec §17.46)."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from tarry.embedded import EmbeddedServer
from tarry.testing import call, say
from tests.support.answers import ask
from tests.support.delegating import Delegation, delegation
from tests.support.held import HeldTool
from tests.support.waiting import eventually
from tests.workflow.test_steers import users

START = call("subagent", agent="scout", prompt="Look.", task_name="look")
WAIT = call("wait_agent", timeout_seconds=120)
HEAD = "[A report of the agent /root/look, not of a person]\n"


async def test_report_is_read_in_the_parents_next_turn_and_starts_none(server: EmbeddedServer, tmp_path: Path) -> None:
    child = [call("report", message="Half of it is done."), say("found")]
    async with delegation(server, tmp_path, [START, say("started")], {"scout": child}) as made:
        await ask(made.root)
        await made.becomes("/root/look", "idle")
        runs = (await made.root.view()).runs
        events = (await (await made.tree()).list()).events
        answer = await ask(made.root, "and?")

    assert runs == 1
    assert [(one.path, one.detail) for one in events if one.kind == "report"] == [("/root/look", "to /root")]
    assert users(answer.entries) == ["go", f"{HEAD}Half of it is done.", "and?"]
    assert made.heard.requests["scout"][-1].messages[-1].text == "/root will read it."


async def test_report_to_a_parent_that_waits_stands_at_its_next_boundary_and_wakes_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    child = [call("report", message="Half of it is done."), say("found")]
    async with delegation(server, tmp_path, [START, WAIT, say("done")], {"scout": child}) as made:
        answer = await ask(made.root)

    assert answer.texts[1] == "/root/look ended its turn.\nfound"
    assert users(answer.entries)[1] == f"{HEAD}Half of it is done."


async def test_report_is_bounded_and_only_a_child_has_it(server: EmbeddedServer, tmp_path: Path) -> None:
    child = [call("report", message="あ" * 1_000), call("report", message=" "), say("found")]
    async with delegation(
        server,
        tmp_path,
        [START, WAIT, call("report", message="up"), say("done")],
        {"scout": child},
        max_output_bytes=1_024,
    ) as made:
        answer = await ask(made.root)

    assert users(answer.entries)[1] == f"{HEAD}{'あ' * 341}\n\n[1977 more bytes were left out]"
    assert len(users(answer.entries)) == 2
    assert made.heard.requests["scout"][-1].messages[-1].text == "there is nothing to report in it"
    assert answer.codes[-1] == "tool_unavailable"


async def test_report_of_a_nested_child_goes_to_its_own_parent(server: EmbeddedServer, tmp_path: Path) -> None:
    lead = [START, WAIT, say("led")]
    scout = [call("report", message="Half."), say("found")]
    root = [call("subagent", agent="lead", prompt="Lead.", task_name="lead"), WAIT, say("done")]
    async with delegation(server, tmp_path, root, {"lead": lead, "scout": scout}) as made:
        answer = await ask(made.root)

    assert made.heard.users("lead") == ["Lead.", "[A report of the agent /root/lead/look, not of a person]\nHalf."]
    assert users(answer.entries) == ["go"]


@pytest.mark.parametrize("anew", [False, True], ids=["over", "another one under its id"])
async def test_report_to_a_parent_that_is_over_is_refused_and_begins_no_conversation(
    server: EmbeddedServer, tmp_path: Path, anew: bool
) -> None:
    held = HeldTool()
    child = [call("work", what="a"), call("report", message="Half of it is done."), say("found")]
    async with delegation(server, tmp_path, [START, say("started")], {"scout": child}, tools=[held.tool]) as made:
        await ask(made.root)
        await held.begun()
        handle = made.on.client.get_workflow_handle(made.root.id)
        await handle.terminate()
        if anew:
            await made.root.write("another conversation")
        held.go.set()
        await eventually(lambda: _requests(made), lambda number: number == 3)
        status = (await handle.describe()).status
        said = [entry for entry in await made.root.transcript() if entry.kind == "user"] if anew else []

    assert status == (WorkflowExecutionStatus.RUNNING if anew else WorkflowExecutionStatus.TERMINATED)
    assert said == []
    assert made.heard.requests["scout"][-1].messages[-1].text.splitlines()[-1] == "/root is over, and reads no report"


async def _requests(made: Delegation) -> int:
    return len(made.heard.requests["scout"])
