"""Agents that go on by themselves: started, written to, awaited and read once (spec §17.40 to §17.43)."""

from __future__ import annotations

import re
import time
from pathlib import Path

from tarry.api import ToolApi
from tarry.core.messages import ToolMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Fail, Reply, Step, call, calls, fail, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.delegating import delegation, last_result, last_user
from tests.support.held import HeldTool

IDLE = "Nothing to wait for: no agent of yours works, and all that ended was read already."
WAIT = call("wait_agent", timeout_seconds=120)


def read_all(request: ModelRequest) -> Reply | Call:
    """Wait until there is nothing left to read, then answer with how many turns were told."""
    if not last_result(request).startswith("Nothing to wait for"):
        return WAIT
    told = [one.text for one in request.messages if isinstance(one, ToolMessage) and one.name == "wait_agent"]
    return say(str(sum(len(re.findall("ended its turn|gave no answer", text)) for text in told)))


async def test_child_is_started_awaited_and_read_once(server: EmbeddedServer, tmp_path: Path) -> None:
    start = call("subagent", agent="scout", prompt="Where is it?", task_name="look")
    root = [start, WAIT, call("list_agents"), WAIT, say("It is here.")]
    async with delegation(server, tmp_path, root, {"scout": [say("In tarry/app.py.")]}) as made:
        answer = await ask(made.root)
        [row] = await made.rows()
        view = await made.root.view()

    started, waited, listed, again = answer.texts
    assert "Started /root/look (agent id agent-" in started
    assert waited == "/root/look ended its turn.\nIn tarry/app.py."
    assert "pending=0 updates=0" in listed
    assert again == f"{IDLE}\n\nAlready read: /root/look."
    assert [text.count("In tarry/app.py.") for text in answer.texts] == [0, 1, 0, 0]
    assert (answer.end, answer.text, view.runs) == ("done", "It is here.", 1)
    assert (row.state, row.turns, row.updates) == ("idle", 1, 0)
    assert made.heard.users("scout") == ["Where is it?"]


async def test_ends_that_come_in_later_turns_of_the_parent_are_all_read_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    number = 16
    starts: list[Step] = [call("subagent", agent="scout", prompt=f"Look {one}.") for one in range(number)]
    root = [*starts, WAIT, *([read_all] * number * 2)]
    async with delegation(server, tmp_path, root, {"scout": [say("found")]}) as made:
        answer = await ask(made.root)
        rows = await made.rows()

    told = "\n".join(answer.texts)
    assert (answer.end, answer.text) == ("done", str(number))
    assert [told.count(f"{row.path} ended its turn.\nfound") for row in rows] == [1] * number
    assert {row.updates for row in rows} == {0}


async def test_names_are_the_callers_own_or_made_and_never_given_twice(server: EmbeddedServer, tmp_path: Path) -> None:
    named = call("subagent", agent="scout", prompt="Look.", task_name="review")
    described = call("subagent", agent="scout", prompt="Look.", description="Find the Bug")
    bad = call("subagent", agent="scout", prompt="Look.", task_name="../up")
    root = [calls(named, named), calls(described, described, described), bad, WAIT, *([read_all] * 9)]
    async with delegation(server, tmp_path, root, {"scout": [say("found")]}) as made:
        answer = await ask(made.root)
        paths = [row.path for row in await made.rows()]

    assert paths == ["/root/find-the-bug", "/root/find-the-bug-2", "/root/find-the-bug-3", "/root/review"]
    assert sorted(result.is_error for result in answer.results[:2]) == [False, True]
    assert any("/root/review is there" in text for text in answer.texts[:2])
    assert answer.results[5].is_error
    assert "1 to 64 of the characters" in answer.texts[5]


async def test_unknown_agent_is_refused_with_those_there_are(server: EmbeddedServer, tmp_path: Path) -> None:
    root = [call("subagent", agent="nobody", prompt="Look."), say("done")]
    async with delegation(server, tmp_path, root, {"scout": [say("found")]}) as made:
        answer = await ask(made.root)

    assert answer.texts == ["there is no agent 'nobody'; known: scout"]
    assert answer.results[0].is_error


async def test_messages_wait_for_the_follow_up_that_starts_one_turn_with_all(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    start = call("subagent", agent="scout", prompt="Wait for me.", task_name="look")
    m1, m2 = (call("send_message", agent="look", message=text) for text in ("First.", "Second."))
    root = [
        *[start, WAIT, m1, m2, call("followup_task", agent="/root/look", message="Third."), WAIT],
        *[call("followup_task", agent="look"), say("done")],
    ]
    async with delegation(server, tmp_path, root, {"scout": [say("well")]}) as made:
        answer = await ask(made.root)
        row = await made.row("/root/look")

    assert "1 message waits there" in answer.texts[2]
    assert "2 messages wait there" in answer.texts[3]
    assert answer.texts[4] == "/root/look has 3 messages to read. It runs."
    assert answer.texts[5] == "/root/look ended its turn.\nwell"
    assert "no message waits for /root/look" in answer.texts[6]
    assert made.heard.users("scout") == ["Wait for me.", "First.\n\nSecond.\n\nThird."]
    assert (row.turns, row.pending) == (2, 0)


async def test_messages_of_a_turn_that_fails_are_consumed_and_later_ones_wait_for_the_next(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    def scout(request: ModelRequest) -> Reply | Fail:
        return fail("permanent", "no credit left") if last_user(request).startswith("m1") else say("well")

    m1, m2, m3 = (call("send_message", agent="look", message=text) for text in ("m1", "m2", "m3"))
    followup = call("followup_task", agent="look")
    start = call("subagent", agent="scout", prompt="Wait.", task_name="look")
    root = [start, WAIT, m1, m2, followup, m3, WAIT, followup, WAIT, say("done")]
    async with delegation(server, tmp_path, root, {"scout": [scout]}) as made:
        answer = await ask(made.root)
        row = await made.row("/root/look")

    assert answer.texts[4].startswith("/root/look has 2 messages to read.")
    assert "/root/look gave no answer (model_error: no credit left)" in answer.texts[6]
    assert answer.texts[7].startswith("/root/look has 1 message to read.")
    assert answer.texts[8] == "/root/look ended its turn.\nwell"
    assert made.heard.users("scout") == ["Wait.", "m1\n\nm2", "m3"]
    assert (row.turns, row.pending) == (3, 0)


async def test_message_to_a_child_at_work_joins_its_turn(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()

    @tool
    def until_begun() -> None:
        """Return when the child is at work."""
        while not held.ledger:
            time.sleep(0.02)

    def let_go(request: ModelRequest) -> Call:
        held.go.set()
        return WAIT

    def scout(request: ModelRequest) -> Reply | Call:
        return say("faster") if last_user(request) == "Faster." else call("work", what="a")

    start = call("subagent", agent="scout", prompt="Work.", task_name="look")
    root = [start, call("until_begun"), call("followup_task", agent="look", message="Faster."), let_go, say("done")]
    async with delegation(server, tmp_path, root, {"scout": [scout]}, tools=[held.tool, until_begun]) as made:
        answer = await ask(made.root)
        row = await made.row("/root/look")

    assert answer.texts[2] == "/root/look has 1 message to read. It was at work, and reads them in its turn."
    assert answer.texts[3] == "/root/look ended its turn.\nfaster"
    assert row.turns == 1


async def test_child_that_ends_while_its_own_work_is_waiting_and_only_it_reads_of_that(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    root = [call("subagent", agent="lead", prompt="Lead.", task_name="lead"), WAIT, say("done")]
    lead = [call("subagent", agent="scout", prompt="Look.", task_name="look"), say("It looks.")]
    scout = [call("work", what="a"), say("found")]
    async with delegation(server, tmp_path, root, {"lead": lead, "scout": scout}, tools=[held.tool]) as made:
        answer = await ask(made.root)
        await held.begun()
        waiting = await made.row("/root/lead")
        held.go.set()
        over = await made.becomes("/root/lead", "idle")
        scout_row = await made.row("/root/lead/look")

    assert answer.texts[1].startswith("/root/lead ended its turn, while /root/lead/look of its own still worked.")
    assert (waiting.state, waiting.waits_for) == ("waiting", "its agents: /root/lead/look")
    assert (over.updates, scout_row.state) == (1, "idle")


async def test_one_wait_brings_all_that_has_ended_whole(server: EmbeddedServer, tmp_path: Path) -> None:
    long = "あ" * 15_000
    start = calls(*(call("subagent", agent="scout", prompt="Look.") for _ in range(3)))

    def root(request: ModelRequest) -> Reply | Call:
        if request.messages[-1].role == "tool":
            return say("done")
        return start if last_user(request) == "begin" else WAIT

    async with delegation(server, tmp_path, [root, root], {"scout": [say(long)]}) as made:
        await ask(made.root, "begin")
        for row in await made.rows():
            await made.becomes(row.path, "idle")
        answer = await ask(made.root, "read")
        left = (await (await made.tree()).list()).agents

    # Of other tools a model reads 50 KiB.
    assert answer.texts[-1].count(long) == 3
    assert len(answer.texts[-1].encode()) > 3 * 45_000
    assert {row.updates for row in left} == {0}


async def test_tool_that_delegates_in_code_is_given_data(server: EmbeddedServer, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}

    @tool(replay="safe")
    async def count(api: ToolApi) -> str:
        """Count, by an agent."""
        asked = {"agent": "scout", "prompt": "Count.", "output_schema": schema}
        result = await api.execute_tool("subagent", asked, key="count")
        return f"twice {result.structured['files']} is {2 * result.structured['files']}"

    async with delegation(
        server,
        tmp_path,
        [call("count"), say("done")],
        {"scout": [say('{"files": 3}')]},
        mode="foreground",
        tools=[count],
    ) as made:
        answer = await ask(made.root)

    assert answer.texts == ["twice 3 is 6"]
