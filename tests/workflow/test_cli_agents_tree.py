"""`tarry agents tree`, `follow`, `message` and `interrupt`, on the tree of a real conversation (docs/subagents.md)."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of, worker
from tests.support import delegating_app
from tests.support.command import Command, Done, InProcess, Run, interrupt, told
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
async def tarry(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The command where a server is configured and a worker serves agents that delegate."""
    folder = tmp_path_factory.mktemp("trees")
    ours = {
        "TARRY_TASK_QUEUE": "cli-trees",
        "TARRY_SHUTDOWN_GRACE": "1",
        "TARRY_STORE": str(folder / "store"),
        "TARRY_CONFIG_DIR": str(folder / "config"),
    }
    command = Command(folder, environment_of(server.address) | ours)
    async with worker(delegating_app.NAME, log=folder / "worker.log", environment=command.environment):
        yield command


@pytest.fixture
def run(tarry: Command, in_process: InProcess) -> Run:
    """The same command without a process for each run."""
    return in_process(tarry.environment)


def becomes(run: Run, conversation: str, path: str, **facts: object) -> dict[str, Any]:
    """The row of an agent, once it says all of that."""
    end = time.monotonic() + PATIENCE
    row: dict[str, Any] = {}
    while time.monotonic() < end:
        rows = run("agents", "tree", conversation, "--json").json["agents"]
        row = next((row for row in rows if row["path"] == path), {})
        if facts.items() <= row.items():
            return row
    raise TimeoutError(f"{path} never was {facts}: {row}")


def test_tree_shows_what_each_agent_waits_for_and_whom_a_grandchild_asks(run: Run) -> None:
    run("ask", "start review start auth ask", "--conversation", "asking")
    asking = becomes(run, "asking", "/root/review/auth", state="waiting", waits_for="Which colour?")
    becomes(run, "asking", "/root/review", state="waiting", waits_for="its agents: /root/review/auth")

    shown = run("agents", "tree", "asking")
    told = run("agents", "tree", "asking", "--json").json

    header, root, review, auth, permits = shown.out.splitlines()
    assert (shown.code, header.split()[:4]) == (0, ["AGENT", "DEFINITION", "STATE", "SINCE"])
    assert root.split() == ["/root", "asking"]
    assert review.split()[:4] == ["└─", "review", "scout", "waiting"]
    assert "its agents: /root/review/auth" in review
    assert auth.split()[:4] == ["└─", "auth", "scout", "waiting"]
    assert "asks Ana: Which colour?" in auth
    assert asking["agent_id"] in auth
    assert permits.startswith("background · 0 of 2 permits used · agents spent ")
    [question] = told["agents"][1]["questions"]
    assert (question["agent"], question["for_whom"]) == ("/root/review/auth", "Ana")
    assert (told["permits"], told["permits_used"], told["queued"], told["mode"]) == (2, 0, 0, "background")


def test_tree_of_an_agent_by_its_id_is_what_is_below_it(run: Run) -> None:
    run("ask", "start review start auth ask", "--conversation", "below")
    becomes(run, "below", "/root/review/auth", state="waiting")
    review = becomes(run, "below", "/root/review")["agent_id"]

    told = run("agents", "tree", review, "--json").json
    sent = run("agents", "message", review, "auth", "relative to it", "--json").json

    assert (told["path"], [row["path"] for row in told["agents"]]) == ("/root/review", ["/root/review/auth"])
    assert (sent["path"], sent["pending"]) == ("/root/review/auth", 1)


def test_what_exceeds_the_permits_is_shown_as_queued(run: Run) -> None:
    for name in ("a", "b", "c"):
        run("ask", f"start {name} work", "--conversation", "crowd")
    waiting = becomes(run, "crowd", "/root/c", state="queued")

    last = run("agents", "tree", "crowd").out.splitlines()[-1]
    assert (waiting["waits_for"], waiting["pending"]) == ("a permit", 1)
    assert last.startswith("background · 2 of 2 permits used, 1 queued")

    stopped = run("agents", "interrupt", "crowd", "a")
    assert stopped == Done(0, "/root/a is being stopped, and all below it\n", "")
    becomes(run, "crowd", "/root/c", state="running")
    becomes(run, "crowd", "/root/a", state="idle")
    assert run("agents", "interrupt", "crowd", "/root/a").out == "/root/a did nothing, nor anything below\n"


def test_a_message_of_a_person_waits_until_start_begins_a_turn_with_all_that_waits(run: Run) -> None:
    run("ask", "start a hello", "--conversation", "mail")
    idle = becomes(run, "mail", "/root/a", state="idle")

    first = run("agents", "message", "mail", "a", "one")
    assert first.out == f"/root/a has 1 pending ({idle['agent_id']}.m2); --start begins a turn with them\n"
    assert becomes(run, "mail", "/root/a", pending=1)["state"] == "idle"
    again = [run("agents", "message", "mail", "a", "two", "--request-id", "r", "--json").json for _ in "ab"]
    assert [one["pending"] for one in again] == [2, 2]

    begun = run("agents", "message", "mail", idle["agent_id"], "three", "--start", "--json").json
    assert (begun["path"], begun["messages"], begun["state"]) == ("/root/a", 3, "running")
    becomes(run, "mail", "/root/a", state="idle", turns=2)
    assert "heard one\n  \n  two\n  \n  three" in run("transcript", idle["agent_id"]).out
    events = run("agents", "tree", "mail", "--json").json["events"]
    assert [event["detail"] for event in events if event["kind"] == "message"] == ["from a person"] * 2


@pytest.fixture(scope="module")
async def wrong(tarry: Command) -> None:
    """A conversation with the agent `/root/a`."""
    await tarry.run("ask", "start a hello", "--conversation", "wrong")


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("tree", "nobody"), 1, "there is no conversation nobody"),
        (("tree", "a/b"), 2, "conversation id 'a/b' must not hold"),
        (("follow", "wrong", "nobody"), 1, "no agent 'nobody' below /root: `tarry agents tree wrong` shows what there"),
        (("message", "wrong", "nobody", "hey"), 1, "no agent /root/nobody: `tarry agents tree wrong` shows what there"),
        (("message", "wrong", "../a", "hey"), 1, "leads out of /root: `tarry agents tree wrong` shows what there"),
        (("message", "wrong", "a"), 2, "give a text"),
        (("message", "wrong", "a", " "), 2, "give a text"),
        (("interrupt", "wrong", "/root"), 1, "/root is not below /root: `tarry agents tree wrong` shows what there"),
    ],
)
def test_what_is_wrong_is_said_on_one_line_with_what_to_do(
    run: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    refused = run("agents", *arguments)

    assert (refused.code, refused.out, refused.err.count("\n")) == (code, "", 1)
    assert said in refused.err


async def test_without_a_worker_one_line_says_where_to_look(tarry: Command) -> None:
    told = await tarry.run("agents", "tree", "any", TARRY_TASK_QUEUE="nobody-serves-it")

    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert "no worker serves task queue nobody-serves-it: start one" in told.err
    assert "without one `tarry ps` lists agents by their paths" in told.err


async def test_follow_tells_each_event_once_as_it_happens_until_ctrl_c(tarry: Command) -> None:
    await tarry.run("ask", "start a work", "--conversation", "events")
    async with tarry.started("agents", "follow", "events", "--json") as process:
        events = [await told(process), await told(process)]
        await tarry.run("agents", "message", "events", "a", "mind the cat")
        events.append(await told(process))
        await tarry.run("agents", "interrupt", "events", "a")
        events += [await told(process) for _ in range(3)]
        ended = await interrupt(process)

    kinds = ["start", "turn-start", "message", "interrupt", "turn-end", "end"]
    assert [event["kind"] for event in events] == kinds
    assert [event["number"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert {event["path"] for event in events} == {"/root/a"}
    assert {event["agent_id"] for event in events} == {events[1]["turn_id"].removesuffix(".1")}
    assert ended.code == 0


async def test_follow_of_one_agent_tells_what_it_says_and_does(tarry: Command) -> None:
    await tarry.run("ask", "start a work", "--conversation", "followed")
    async with tarry.started("agents", "follow", "followed", "a") as process:
        assert process.stdout is not None
        seen = b""
        while b"work {}" not in seen:
            seen += await process.stdout.readline()
        await tarry.run("agents", "interrupt", "followed", "a")
        await tarry.run("agents", "message", "followed", "a", "come back", "--start")
        while b"heard come back" not in seen:
            seen += await process.stdout.readline()
        ended = await interrupt(process, signal.SIGTERM)
    async with tarry.started("agents", "follow", "followed", "/root/a", "--json") as process:
        snapshot = await told(process)

    assert "› come back" in seen.decode()
    assert ended.code == 0
    assert snapshot["type"] == "snapshot"
    assert json.dumps(snapshot["view"]["entries"]).count("heard come back") == 1


def test_reload_lets_the_files_of_this_host_count_and_says_what_that_changes(run: Run, tarry: Command) -> None:
    config = tarry.folder / "config"
    (config / "agents").mkdir(parents=True)
    (config / "agents" / "critic.md").write_text("---\nname: critic\ndescription: Finds fault.\n---\nYou find fault.\n")
    (config / "subagent.json").write_text('{"maxConcurrentBackgroundRuns": 7}')
    run("ask", "hello", "--conversation", "reloaded")

    told = run("agents", "reload", "reloaded", "--json").json
    again = run("agents", "reload", "reloaded")
    run("ask", "start a hello", "--conversation", "reloaded")
    (config / "subagent.json").write_text('{"maxDepht": 2}')
    bad = run("agents", "reload", "reloaded")
    tree = run("agents", "tree", "reloaded", "--json").json

    assert told["agents"] == ["critic"]
    assert told["changes"] == {
        "added": ["critic"],
        "removed": ["scout"],
        "changed": [],
        "settings": {"max_concurrent_runs": [2, 7], "inherit_extensions": [True, False]},
    }
    assert again == Done(0, "agents: critic\nnothing has changed\n", "")
    assert (tree["permits"], tree["agents"]) == (7, [])
    assert "there is no agent 'scout'; known: critic" in run("transcript", "reloaded").out
    assert (bad.code, bad.out, bad.err.count("\n")) == (2, "", 1)
    assert "nothing was reloaded: " in bad.err
    assert "maxDepht" in bad.err


def test_usage_of_a_tree_is_that_of_the_root_and_of_all_below_it(run: Run) -> None:
    run("ask", "start a hello", "--conversation", "spending")
    agent = becomes(run, "spending", "/root/a", state="idle")

    root = run("usage", "spending", "--json").json["total"]["reports"]
    own = run("usage", agent["agent_id"], "--json").json["total"]["reports"]
    told = run("usage", "spending", "--tree", "--json").json
    lines = run("usage", "spending", "--tree").out.splitlines()

    assert (root, own) == (2, 1)
    assert {path: one["models"]["scripted/1"]["reports"] for path, one in told["agents"].items()} == {
        "/root": 2,
        "/root/a": 1,
    }
    assert told["models"]["scripted/1"]["reports"] == told["total"]["reports"] == 3
    assert [line.split()[:2] for line in lines[1:]] == [
        ["/root", "2"],
        ["/root/a", "1"],
        ["scripted/1", "3"],
        ["total", "3"],
    ]
    alone = run("usage", "--tree")
    assert (alone.code, alone.err) == (2, "tarry: --tree is of one conversation: give its id\n")
