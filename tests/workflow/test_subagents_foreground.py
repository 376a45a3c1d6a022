"""Delegations that wait for their answer: a park until the child's turn has ended (spec §17.41)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from activities.conversation.sending import SendActivities
from tarry.client.agent_host import AgentHost
from tarry.client.agents import AgentTree
from tarry.core.subagents.ceilings import LIFECYCLE
from tarry.core.subagents.definition import RuntimeMode
from tarry.core.subagents.protocol import StartAgent, Started
from tarry.core.transcript import ToolFacts
from tarry.embedded import EmbeddedServer
from tarry.store import BlobStore
from tarry.testing import ScriptedModel, Step, call, calls, empty, fail, say
from tests.support.answers import Answer, answer_to, ask
from tests.support.delegating import delegation
from tests.support.held import HeldMethod, HeldTool
from tests.support.waiting import eventually

DELEGATES = [call("subagent", agent="scout", prompt="Look.", task_name="look"), say("done")]


async def delegated(server: EmbeddedServer, folder: Path, *child: Step, **settings: Any) -> tuple[Answer, ToolFacts]:
    """What came of one delegation to a child that follows this script."""
    async with delegation(server, folder, DELEGATES, {"scout": child}, mode="foreground", **settings) as made:
        answer = await ask(made.root)
    [facts] = answer.facts
    return answer, facts


async def test_call_is_answered_with_the_childs_answer(server: EmbeddedServer, tmp_path: Path) -> None:
    answer, facts = await delegated(server, tmp_path, say("In tarry/app.py."))

    assert (answer.texts, facts.code) == (["In tarry/app.py."], "")
    assert isinstance(facts.details, dict)
    assert (facts.details["path"], facts.details["status"], facts.details["is_error"]) == ("/root/look", "done", False)


async def test_call_that_waits_is_parked_and_needs_no_worker(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    child = [call("work", what="a"), say("found")]
    async with (
        delegation(
            server, tmp_path, DELEGATES, {"scout": child}, mode="foreground", tools=[held.tool], worker=False
        ) as made,
        made.on.worker(),
    ):
        first = await made.root.submit("go")
        await held.begun()
        states = {item.tool: item.state for item in await made.calls()}
        held.go.set()
        answer = await answer_to(made.root, first)

    assert states == {"subagent": "sleeping", "work": "running"}
    assert answer.texts == ["found"]


async def test_calls_of_one_response_run_side_by_side(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    three = [call("subagent", agent="scout", prompt=f"Look {number}.") for number in range(3)]
    child = [lambda request: call("work", what=request.messages[-1].text), say("found")]
    async with delegation(
        server, tmp_path, [calls(*three), say("done")], {"scout": child}, mode="foreground", tools=[held.tool]
    ) as made:
        first = await made.root.submit("go")
        await held.begun(3)
        held.go.set()
        answer = await answer_to(made.root, first)

    assert answer.texts == ["found"] * 3
    assert sorted(held.ledger) == ["Look 0.", "Look 1.", "Look 2."]


LONG = "あ" * 1_000


@pytest.mark.parametrize(
    ("child", "reason", "told"),
    [
        ([fail("permanent", "no credit left")], "model_error", "no credit left"),
        ([call("none"), say("half", stop="length")], "cut_off", "half"),
        ([empty(times=None)], "empty_answer", "(it said nothing)"),
        ([say("I had begun.", stop="refusal")], "refused", "I had begun."),
    ],
)
async def test_end_that_is_no_real_answer_is_an_error_with_reason_and_last_words(
    server: EmbeddedServer, tmp_path: Path, child: list[Step], reason: str, told: str
) -> None:
    answer, facts = await delegated(server, tmp_path, *child)

    [result] = answer.results
    assert isinstance(facts.details, dict)
    assert (facts.details["status"], facts.details["reason"]) == ("unanswered", reason)
    assert result.is_error
    assert result.text.startswith(f"/root/look gave no answer ({reason}")
    assert told in result.text


async def test_answer_is_cut_at_a_character_and_says_where_the_whole_is(server: EmbeddedServer, tmp_path: Path) -> None:
    answer, facts = await delegated(server, tmp_path, say(LONG), max_output_bytes=1_024)

    [text] = answer.texts
    shown, _, note = text.partition("\n[cut here; the whole is in its conversation, agent-")
    assert shown == "あ" * 341
    assert note.endswith("]")
    assert isinstance(facts.details, dict)
    assert facts.details["is_cut"]


async def test_answer_with_a_schema_is_enforced_and_given_as_data(server: EmbeddedServer, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
    root = [call("subagent", agent="scout", prompt="Count.", output_schema=schema), say("done")]
    child = ScriptedModel([say("three"), say('{"files": 3}')], "scout")
    async with delegation(server, tmp_path, root, {"scout": child}, mode="foreground") as made:
        answer = await ask(made.root)

    [facts] = answer.facts
    assert answer.texts == ['{"files": 3}']
    assert isinstance(facts.details, dict)
    assert facts.details["answer"] == {"files": 3}


async def test_schema_with_a_pattern_is_refused_before_there_is_a_child(server: EmbeddedServer, tmp_path: Path) -> None:
    endless = {"properties": {"pattern": {"anyOf": [{"type": "string", "pattern": "(a+)+$"}]}}}
    named = {"type": "object", "properties": {"pattern": {"type": "string"}}}
    asked = [call("subagent", agent="scout", prompt="Look.", output_schema=schema) for schema in (endless, named)]
    async with delegation(
        server, tmp_path, [*asked, say("done")], {"scout": [say('{"pattern": "a"}')]}, mode="foreground"
    ) as made:
        answer = await ask(made.root)
        rows = await made.rows()

    assert "pattern and patternProperties are not taken" in answer.texts[0]
    assert answer.results[0].is_error
    assert answer.texts[1] == '{"pattern": "a"}'
    assert len(rows) == 1


async def test_nested_child_waits_too_and_nobody_has_tools_for_the_background(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = [call("subagent", agent="lead", prompt="Lead.", task_name="lead"), say("done")]
    lead = [call("subagent", agent="scout", prompt="Look.", task_name="look"), say("led")]
    async with delegation(server, tmp_path, root, {"lead": lead, "scout": [say("found")]}, mode="foreground") as made:
        answer = await ask(made.root)
        paths = [row.path for row in await made.rows()]

    assert answer.texts == ["led"]
    assert paths == ["/root/lead", "/root/lead/look"]
    for name in ("root", "lead", "scout"):
        assert not {*LIFECYCLE, "report"} & {*made.heard.tools(name)}
    assert made.heard.requests["lead"][-1].messages[-1].text == "found"


async def test_stop_of_the_run_stops_the_child_it_waits_for(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    child = [call("work", what="a"), say("found")]
    async with delegation(server, tmp_path, DELEGATES, {"scout": child}, mode="foreground", tools=[held.tool]) as made:
        first = await made.root.submit("go")
        await held.begun()
        await made.root.abort()
        answer = await answer_to(made.root, first)
        row = await made.becomes("/root/look", "idle")
        left = [item.tool for item in await made.calls()]

    assert (answer.end, answer.codes, left) == ("unanswered aborted", ["aborted"], [])
    assert row.turns == 1


async def test_stop_of_the_call_alone_stops_its_child_and_the_run_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    child = [call("work", what="a"), say("found")]
    async with delegation(server, tmp_path, DELEGATES, {"scout": child}, mode="foreground", tools=[held.tool]) as made:
        first = await made.root.submit("go")
        await held.begun()

        async def parked() -> list[str]:
            return [one.id for one in await made.calls() if one.tool == "subagent" and one.state == "sleeping"]

        [task_id] = await eventually(parked)
        await made.on.harness.abort(task_id)
        answer = await answer_to(made.root, first)
        await made.becomes("/root/look", "idle")

    assert (answer.end, answer.codes) == ("done", ["aborted"])


@pytest.mark.parametrize("mode", ["foreground", "background"])
async def test_stop_of_a_call_alone_that_has_started_its_child_and_not_returned_stops_the_child(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: RuntimeMode
) -> None:
    """Given a call whose request to start a child was taken, when it is stopped before it parks or has its result,
    nothing of that child works on, and the run goes on."""
    held = HeldTool()
    child = [call("work", what="a"), say("found")]
    start, answered = AgentTree.start, asyncio.Event()

    async def started_and_not_told(tree: AgentTree, request: StartAgent) -> Started:
        started = await start(tree, request)
        await answered.wait()
        return started

    monkeypatch.setattr(AgentTree, "start", started_and_not_told)
    async with delegation(server, tmp_path, DELEGATES, {"scout": child}, mode=mode, tools=[held.tool]) as made:
        first = await made.root.submit("go")
        await held.begun()
        [task_id] = [one.id for one in await made.calls() if one.tool == "subagent"]
        await made.on.harness.abort(task_id)
        answer = await answer_to(made.root, first)
        row = await made.becomes("/root/look", "idle")

    assert (answer.end, answer.codes) == ("done", ["aborted"])
    assert row.turns == 1


FILES = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}


@pytest.mark.parametrize("is_late", [False, True], ids=["in its run", "in one of its own"])
async def test_what_joins_an_agent_that_owes_data_is_answered_with_data_in_its_run_or_one_of_its_own(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    held = HeldTool()
    root = [call("subagent", agent="scout", prompt="Count.", task_name="count", output_schema=FILES), say("done")]
    counts = say('{"files": 3}') if is_late else call("work", what="a")
    child = ScriptedModel([counts, *([say("One more.")] if is_late else []), say('{"files": 4}')], "scout")
    async with delegation(server, tmp_path, root, {"scout": child}, mode="foreground", tools=[held.tool]) as made:
        telling = HeldMethod(monkeypatch, SendActivities, "_deliver")
        first = await made.root.submit("go")
        await (telling.reached.wait() if is_late else held.begun())
        host = AgentHost(await made.tree(), BlobStore(made.on.client.data_converter))
        joined = await host.follow_up("count", "Count again.")
        child_view = made.on.harness.conversation(joined.agent_id).view
        await eventually(child_view, lambda view: view.runs == 2 or bool(view.queued))
        telling.go.set()
        held.go.set()
        answer = await answer_to(made.root, first)
        runs = (await child_view()).runs

    [facts] = answer.facts
    assert (joined.state, runs) == ("joined", 2 if is_late else 1)
    assert answer.texts == ['{"files": 4}']
    assert isinstance(facts.details, dict)
    assert facts.details["answer"] == {"files": 4}


async def test_answer_of_one_long_line_behind_a_short_one_is_cut_in_that_line(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    answer, _ = await delegated(server, tmp_path, say("Found:\n" + "x" * 5_000), max_output_bytes=1_024)

    [text] = answer.texts
    assert text.partition("\n[cut here")[0] == "Found:\n" + "x" * 1_017


async def test_long_answer_in_any_script_is_read_without_a_remark(server: EmbeddedServer, tmp_path: Path) -> None:
    answer, facts = await delegated(server, tmp_path, say("あ" * 16_000))

    assert answer.texts == ["あ" * 16_000]
    assert facts.diagnostics == ()
