"""Waiting work from the shell: what each command prints and how it ends, with a worker and without (spec §9.3)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tarry import cli
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of, worker
from tests.support import waiting_app
from tests.support.command import Command, Done, InProcess, Run, interrupt, told
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually

PASSED = '{"status": "passed"}'
NAME = waiting_app.CI_RESULT.name


@dataclass(frozen=True)
class Place:
    """A queue on which two calls are parked: one on a signal alone, one with a deadline in 50 minutes."""

    environment: dict[str, str]
    open: str
    due: str
    until: datetime


async def parked(on: Stage, text: str) -> str:
    """The id of a call that waits as `text` says."""
    conversation = on.harness.conversation(f"c{uuid.uuid4().hex[:8]}")
    await conversation.submit(text)

    async def sleeping() -> list[str]:
        found = [item async for item in on.harness.work(conversation_id=conversation.id)]
        return [item.id for item in found if item.state == "sleeping"]

    return (await eventually(sleeping))[0]


async def place(on: Stage, server: EmbeddedServer) -> Place:
    """Park two calls; a worker must be up."""
    open, due = await parked(on, "done"), await parked(on, "done 3000")
    until = (await on.harness.task(due)).until
    assert until is not None
    ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store}
    return Place(environment_of(server.address) | ours, open, due, until)


@pytest.fixture
async def left(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Place]:
    """Parked work whose workers are gone."""
    async with idle_stage(server, waiting_app.app, tmp_path / "store") as stage:
        async with stage.worker():
            made = await place(stage, server)
        yield made


@pytest.fixture
async def kept(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Place]:
    """Parked work with a worker, which is another process: this one runs the commands."""
    async with idle_stage(server, waiting_app.app, tmp_path / "store") as stage:
        ours = {"TARRY_TASK_QUEUE": stage.settings.task_queue, "TARRY_STORE": stage.settings.store}
        environment = environment_of(server.address) | ours
        async with worker(waiting_app.NAME, log=tmp_path / "worker.log", environment=environment):
            yield await place(stage, server)


@pytest.fixture
def run(in_process: InProcess) -> Run:
    """The command, at a place."""
    return lambda at, *words: in_process(at.environment)(*words)


def test_list_says_what_parked_work_waits_for_with_no_worker_up(left: Place, run: Run) -> None:
    listed = {item["id"]: item for item in run(left, "ps", "--json").json["work"]}
    table = run(left, "ps").out.splitlines()

    assert listed[left.due]["waiting_for"] == ["app.ci-result/done"]
    assert datetime.fromisoformat(listed[left.due]["until"]) == left.until
    assert (listed[left.due]["question"], listed[left.open]["until"]) == ("Did it pass?", None)
    # The list is of the whole namespace, where other tests may leave agents, forks and calls for other workers.
    header = re.sub("WORKER|FORK OF|AGENT", "", table[0])
    assert header.split() == ["STATE", "KIND", "TOOL", "AGE", "WAITS", "FOR", "UNTIL", "ASKS", "PATH", "ID"]
    (row,) = [line for line in table if line.split()[-1] == left.due]
    assert row.split()[:3] == ["sleeping", "tool", "call"]
    assert re.search("app.ci-result/done  in (50|49) min ", row)
    conversation, generation, _ = left.due.split("/")
    assert f"Did it pass?  {conversation.partition('~')[0]} › wait_for  " in row
    assert listed[left.due]["path"] == [conversation.partition("~")[0], f"{conversation}/{generation}", left.due]


def test_parked_call_is_explained_with_no_worker_up(left: Place, run: Run) -> None:
    facts = run(left, "explain", left.due, "--json").json
    lines = run(left, "explain", left.due).out.splitlines()

    assert (facts["id"], facts["state"], facts["closed"], facts["task"], facts["work"]) == (
        left.due,
        "sleeping",
        "",
        None,
        [],
    )
    assert facts["why"] == "waits for app.ci-result/done or its deadline"
    assert (facts["parked"]["text"], facts["parked"]["for_whom"]) == ("Did it pass?", "ops")
    assert lines[0] == "wait_for waits for app.ci-result/done or its deadline"
    said = dict(line.strip().split(maxsplit=1) for line in lines[1 : lines.index("")])
    assert said["id"] == left.due
    assert said["asks"] == "Did it pass? (for ops)"
    assert json.loads(said["arguments"]) == {"key": "done", "seconds": 3000.0}
    assert said["until"].endswith(")")
    assert lines[-1] == f"  tarry abort {shlex.quote(left.due)}"


def test_command_that_is_shown_wakes_the_call_when_pasted(left: Place, run: Run) -> None:
    (command,) = run(left, "explain", left.open, "--json").json["wake_commands"]
    ours = next(line for line in run(left, "explain", left.open).out.splitlines() if line.startswith("  tarry signal"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    pasted = subprocess.run(
        ["sh", "-c", command], env=left.environment | {"PATH": path}, capture_output=True, text=True
    )
    again = run(left, *shlex.split(ours)[1:])

    assert (pasted.returncode, pasted.stderr) == (0, "")
    assert again == Done(0, "accepted by the server: the receipt tells more when a worker is up\n", "")
    plan = run(left, "wake", "--json").json
    assert (plan["active"], plan["at"], plan["why"]) == (True, None, "backlog")


def test_workers_are_needed_at_the_deadline_and_not_before(left: Place, run: Run) -> None:
    plan = run(left, "wake", "--json").json
    words = run(left, "wake").out

    assert datetime.fromisoformat(plan.pop("at")) == left.until
    assert plan == {"active": False, "why": "", "task_queue": left.environment["TARRY_TASK_QUEUE"]}
    assert re.fullmatch(f"idle until {left.until.astimezone():%Y-%m-%d %H:%M:%S} \\(in (50|49) min.*\\)\n", words)


def test_without_a_worker_a_value_is_kept_and_its_receipt_is_asked_for_later(left: Place, run: Run) -> None:
    sent = run(left, "signal", left.open, NAME, "done", PASSED, "--delivery-id", "d1", "--json")
    receipt = run(left, "receipt", left.open, "d1", "--json")

    assert (sent.code, sent.err) == (0, "")
    assert sent.json == {"task_id": left.open, "answer": "accepted", "reason": "", "delivery_id": "d1"}
    assert (receipt.code, receipt.json["error"]["code"]) == (2, "server_unavailable")
    assert "no worker" in receipt.err


def test_stop_needs_no_worker(left: Place, run: Run) -> None:
    stopped = run(left, "abort", left.open, "--json")

    assert (stopped.code, stopped.json) == (0, {"id": left.open, "was_running": True})
    assert run(left, "abort", left.due) == Done(0, "it is being stopped\n", "")


def test_every_answer_has_its_words_and_its_code(kept: Place, run: Run) -> None:
    delivered = run(kept, "signal", kept.open, NAME, "other", PASSED, "--delivery-id", "d1")
    repeat = run(kept, "signal", kept.open, NAME, "other", PASSED, "--delivery-id", "d1")
    duplicate = run(kept, "signal", kept.open, NAME, "other", PASSED)
    invalid = run(kept, "signal", kept.open, NAME, "done", '{"status": 1}', "--json")
    newer = run(kept, "signal", kept.open, NAME, "done", PASSED, "--version", "2")
    missing = run(kept, "signal", "nobody", NAME, "done", PASSED)
    receipt = run(kept, "receipt", kept.open, "d1", "--json")
    woken = run(kept, "signal", kept.open, NAME, "done", PASSED)

    assert (delivered, repeat, woken) == (Done(0, "delivered\n", ""),) * 3
    assert duplicate == Done(0, "duplicate: the key held a value already, which stays\n", "")
    assert (invalid.code, invalid.json["answer"]) == (1, "invalid")
    assert invalid.err == "tarry: invalid: status: Input should be a valid string\n"
    assert newer == Done(1, "", "tarry: invalid: app.ci-result version 2 is not known here; known are 1 to 1\n")
    assert missing == Done(1, "", "tarry: not_found: there is no nobody\n")
    assert (receipt.json["answer"], receipt.json["signal"], receipt.json["key"]) == ("delivered", NAME, "other")


def test_ended_call_is_closed_explained_and_keeps_its_receipts(kept: Place, run: Run) -> None:
    run(kept, "signal", kept.open, NAME, "done", PASSED, "--delivery-id", "d1")
    conversation = kept.open.partition("~")[0]
    while not run(kept, "explain", kept.open, "--json").json["closed"]:
        pass
    late = run(kept, "signal", kept.open, NAME, "done", PASSED)
    explained = run(kept, "explain", kept.open)
    receipt = run(kept, "receipt", kept.open, "d1")
    unknown = run(kept, "receipt", kept.open, "d2", "--json")
    again = run(kept, "abort", kept.open)

    assert late == Done(1, "", "tarry: closed: the task is over\n")
    assert explained.out.splitlines()[0] == "wait_for is over: completed"
    assert f"conversation  {conversation}" in explained.out
    assert "received      delivered (app.ci-result/done" in explained.out
    assert "tarry abort" not in explained.out
    assert receipt.out.startswith("delivered (app.ci-result/done, ")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "no_receipt")
    assert again == Done(0, "it was over already\n", "")


def test_run_and_conversation_are_explained_by_their_calls(kept: Place, run: Run) -> None:
    generation = kept.due.rpartition("/")[0]
    of_run = run(kept, "explain", generation, "--json").json
    of_conversation = run(kept, "explain", kept.due.partition("~")[0])

    assert (of_run["why"], [part["id"] for part in of_run["work"]]) == ("waits for 1 of its calls", [kept.due])
    lines = of_conversation.out.splitlines()
    assert lines[0] == "the conversation waits for 1 of its calls"
    assert [line.split()[-1] for line in lines if line.startswith(("sleeping", "running"))] == [kept.due, generation]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{status: passed}"], "the value {status: passed} is no JSON (Expecting property name enclosed in double"),
        (["yes"], """is no JSON (Expecting value at character 1): quote it for the shell, such as '"yes"'"""),
        (["{'status': 'passed'}"], """such as '{"status": "passed"}'"""),
        ([""], "the value  is no JSON"),
        (["[" * 100_000], "is no JSON (maximum recursion depth exceeded"),
        ([], "give the value as JSON, or --input-file"),
        ([PASSED, "--input-file", "x.json"], "give the value as JSON, or --input-file"),
        (["--input-file", "missing.json"], "missing.json cannot be read: No such file or directory"),
        (["--input-file", "latin.json"], "latin.json cannot be read: it is not UTF-8"),
        (["--input-file", "bad.json"], "what bad.json holds is no JSON (Expecting value at character 1)"),
        ([PASSED, "--version", "0"], "--version"),
    ],
)
def test_value_that_is_no_json_is_one_line_that_says_how_to_write_it(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.json").write_bytes(b'"\xe9"')
    Path("bad.json").write_text("passed")

    code = cli.run(["signal", "t", NAME, "done", *words])

    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


def test_value_may_come_from_a_file(left: Place, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    file.write_text(PASSED)

    assert (
        run(left, "signal", left.open, NAME, "done", "--input-file", str(file), "--json").json["answer"] == "accepted"
    )


@pytest.mark.parametrize("words", ["explain nobody", "abort nobody", "receipt nobody d1"])
def test_what_is_not_there_ends_with_1_and_one_line(words: str, left: Place, run: Run) -> None:
    done = run(left, *words.split())

    assert done == Done(1, "", "tarry: there is no nobody\n")


async def test_watch_prints_each_change_as_a_line_and_ends_cleanly(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, waiting_app.app, tmp_path / "store") as stage:
        async with stage.worker():
            made = await place(stage, server)
        command = Command(tmp_path, made.environment)
        async with command.started("wake", "--watch", "--json") as watching:
            first = await told(watching)
            await stage.harness.signal(made.open, NAME, "done", {"status": "passed"})
            second = await told(watching)
            done = await interrupt(watching)

    assert (first["active"], datetime.fromisoformat(first["at"])) == (False, made.until)
    assert (second["active"], second["at"], second["why"]) == (True, None, "backlog")
    assert (done.code, done.out, done.err) == (0, "", "")
