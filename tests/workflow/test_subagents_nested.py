"""Agents of agents: places among those that execute, what a child knows, and what a person is asked (spec §17)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from signals.parking import Ask, Sleep
from signals.tokens import Signal
from tarry.api import Received, ToolApi
from tarry.app import Extension
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.delegating import Script, delegation, last_result
from tests.support.waiting import eventually

WAIT = call("wait_agent", timeout_seconds=120)


def start(agent: str, name: str) -> Call:
    return call("subagent", agent=agent, prompt="Go.", task_name=name)


def lead(request: ModelRequest) -> Reply | Call:
    """Wait for the own child, or do its work when there is no place for one."""
    told = last_result(request)
    if told.startswith("Started"):
        return WAIT
    return say("it found it" if "ended its turn" in told else "did it myself")


async def test_agents_that_hold_every_place_are_refused_more_and_those_that_wait_give_theirs_back(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = [calls(start("lead", "a"), start("lead", "b")), WAIT, WAIT, WAIT, say("done")]
    scripts: dict[str, Script] = {"lead": [start("scout", "look"), lead, lead], "scout": [say("found")]}
    async with delegation(server, tmp_path, root, scripts, max_concurrent_runs=2) as made:
        answer = await ask(made.root)
        ends = [(await made.becomes(f"/root/{name}", "idle")).turns for name in ("a", "b")]
        found = await (await made.tree()).list()

    told = "\n".join(answer.texts)
    assert (answer.end, ends) == ("done", [1, 1])
    assert told.count("did it myself") + told.count("it found it") == 2
    assert (found.permits, found.permits_used, found.queued) == (2, 0, 0)


async def test_chain_with_one_place_ends_since_nested_work_is_refused_with_what_to_do(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = [start("lead", "a"), WAIT, say("done")]
    scripts: dict[str, Script] = {"lead": [start("scout", "look"), lead], "scout": [say("found")]}
    async with delegation(server, tmp_path, root, scripts, max_concurrent_runs=1) as made:
        answer = await ask(made.root)
        rows = await made.rows()

    [refusal] = [one for one in made.heard.requests["lead"][-1].messages if one.role == "tool"]
    assert refusal.is_error
    assert "all 1 permits are in use, and nested work does not queue: do it yourself" in refusal.text
    assert answer.texts[1] == "/root/a ended its turn.\ndid it myself"
    assert [row.path for row in rows] == ["/root/a"]


async def test_fork_knows_the_completed_turns_and_a_fresh_child_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    def root(request: ModelRequest) -> Reply | Call:
        newest = request.messages[-1]
        if newest.role == "tool":
            return say("started")
        return {
            "fresh": call("subagent", agent="fresh", prompt="And now?"),
            "fork": call("subagent_fork", agent="fork", prompt="And now?"),
            "last": call(
                "subagent", agent="last", prompt="And now?", context={"mode": "last_n_completed", "completed_turns": 1}
            ),
        }.get(newest.text, say("It is blue."))

    scripts = {name: [say("known")] for name in ("fresh", "fork", "last")}
    async with delegation(server, tmp_path, [root, root], scripts) as made:
        for text in ("Which colour?", *scripts):
            await ask(made.root, text)
        for row in await made.rows():
            await made.becomes(row.path, "idle")

    before = ["Which colour?", "fresh"]
    assert made.heard.users("fresh") == ["And now?"]
    assert made.heard.users("fork") == [*before, "And now?"]
    assert made.heard.users("last") == ["fork", "And now?"]


async def test_context_that_counts_turns_needs_a_number_and_no_other_has_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    bad = [{"mode": "last_n_completed"}, {"mode": "fresh", "completed_turns": 1}]
    worse = [{"mode": "last_n_completed", "completed_turns": number} for number in (0, 101)]
    tries = [call("subagent", agent="scout", prompt="Go.", context=context) for context in (*bad, *worse)]
    async with delegation(server, tmp_path, [calls(*tries), say("done")], {"scout": [say("found")]}) as made:
        answer = await ask(made.root)
        rows = await made.rows()

    assert all("completed_turns" in text for text in answer.texts)
    assert ([result.is_error for result in answer.results], rows) == ([True] * 4, [])


class Words(BaseModel):
    text: str


ANSWER = Signal("nested.answer", 1, Words)


@tool(replay="safe")
async def ask_ana(api: ToolApi) -> str | Sleep:
    """Ask Ana."""
    state = await api.read_signal(ANSWER, "answer")
    if isinstance(state, Received):
        return state.value.text
    return Sleep(signals=[ANSWER.key("answer")], ask=Ask(text="Which colour?", for_whom="Ana"))


async def test_child_that_asks_a_person_is_waiting_and_its_question_is_the_roots(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    root = [start("lead", "a"), WAIT, say("done")]
    scripts = {"lead": [start("asker", "b"), WAIT, say("led")], "asker": [call("ask_ana"), say("asked")]}
    desk = Extension("desk", [ask_ana], signals=[ANSWER])
    async with delegation(server, tmp_path, root, scripts, extensions=[desk]) as made:
        first = await made.root.submit("go")
        [question] = await eventually(lambda: made.on.harness.questions(made.root.id))
        row = await made.becomes("/root/a/b", "waiting")
        used = (await (await made.tree()).list()).permits_used
        await made.on.harness.signal(question.task_id, ANSWER, "answer", Words(text="blue"))
        answer = await answer_to(made.root, first)

    assert (question.question, row.turns) == ("Which colour?", 1)
    assert "Which colour?" in row.waits_for or "ask_ana" in row.waits_for
    assert used == 0
    assert answer.texts[1] == "/root/a ended its turn.\nled"
