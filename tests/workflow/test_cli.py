"""The `tarry` command against a server and a worker: what it prints where, and how it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import Child, environment_of, worker
from tests.support import cli_app
from tests.support.command import Command, Done, InProcess, Run, Terminal, interrupt
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
async def tarry(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The command where a server is configured and a worker serves."""
    folder = tmp_path_factory.mktemp("cli")
    ours = {"TARRY_TASK_QUEUE": "cli", "TARRY_SHUTDOWN_GRACE": "1", "TARRY_STORE": str(folder / "store")}
    command = Command(folder, environment_of(server.address) | ours)
    async with _worker(command):
        yield command


def _worker(command: Command, **variables: str) -> Child:
    environment = command.environment | variables
    return worker(cli_app.NAME, log=command.folder / "worker.log", environment=environment)


@pytest.fixture
def run(tarry: Command, in_process: InProcess) -> Run:
    """The same command without a process for each run."""
    return in_process(tarry.environment)


def test_people_get_the_answer_alone_and_programs_one_object(run: Run) -> None:
    plain = run("ask", "hello")
    told = run("ask", "hello", "--conversation", "told", "--json")

    assert plain == Done(0, "you said: hello\n", "")
    assert (told.code, told.err) == (0, "")
    facts = told.json
    assert facts.pop("generation_id").startswith("told~")
    assert facts.pop("request_id")
    assert facts == {
        "conversation_id": "told",
        "status": "done",
        "answer": "you said: hello",
        "reason": "",
        "detail": "",
    }


def test_input_without_an_answer_ends_with_1_and_why(run: Run) -> None:
    plain = run("ask", "fail")
    told = run("ask", "fail", "--json")

    assert plain == Done(1, "", "tarry: no answer (model_error): HTTP 400: this cannot be answered\n")
    assert (told.code, told.json["status"], told.json["reason"]) == (1, "unanswered", "model_error")


def test_unknown_model_is_to_be_put_right(run: Run) -> None:
    done = run("ask", "ask an unknown model")

    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "The model `gpt-none` does not exist" in done.err
    assert "OPENAI_MODEL" in done.err


def test_request_id_gives_the_first_answer_and_refuses_other_content(run: Run) -> None:
    named = ("--conversation", "once", "--request-id", "r1")
    first = run("submit", "hello", *named)
    answer = run("wait", "once", "r1")
    again = run("submit", "hello", *named, "--json")
    other = run("submit", "goodbye", *named, "--json")

    assert (first.code, first.out.split()[:4]) == (0, ["conversation", "once", "request", "r1"])
    assert answer == Done(0, "you said: hello\n", "")
    assert (again.code, again.json["status"], again.json["accepted_by"]) == (0, "done", "worker")
    assert (other.code, other.json["error"]["code"]) == (1, "request_conflict")
    assert other.err == "tarry: request id 'r1' was used for other content\n"
    kinds = [entry["kind"] for entry in run("transcript", "once", "--json").json["entries"]]
    assert kinds == ["user", "system", "assistant"]


def test_busy_conversation_refuses_when_asked_to_and_waiting_times_out(run: Run) -> None:
    run("submit", "talk on", "--conversation", "busy", "--request-id", "r1")
    refused = run("submit", "hello", "--conversation", "busy", "--when-busy", "reject", "--json")
    late = run("wait", "busy", "r1", "--timeout", "0.5", "--json")
    listed = run("ps", "--json")

    assert (refused.code, refused.json["error"]["code"]) == (1, "conversation_busy")
    assert (late.code, late.json["error"]["code"], late.json["doing"]) == (3, "timeout", "the model answers")
    assert (late.json["conversation_id"], late.json["request_id"]) == ("busy", "r1")
    assert late.err.startswith("tarry: no answer within 0.5 s (the model answers)")
    work = {item["kind"]: item["state"] for item in listed.json["work"] if item["conversation_id"] == "busy"}
    assert work == {"conversation": "busy", "generation": "running"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("wait nobody r1", "there is no conversation nobody"),
        ("wait known r9", "does not know request r9"),
        ("transcript nobody", "there is no conversation nobody"),
        ("retry nobody", "there is no running nobody"),
        ("retry known", "nothing that can be held"),
    ],
)
def test_what_is_not_there_ends_with_1_and_one_line(words: str, said: str, run: Run) -> None:
    run("submit", "hello", "--conversation", "known")

    done = run(*words.split())

    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert said in done.err


def test_transcript_shows_calls_results_and_timings(run: Run) -> None:
    run("ask", "look up", "--conversation", "drawers")

    done = run("transcript", "drawers")

    lines = done.out.splitlines()
    heads = [line.split(" · ") for line in lines if line and not line.startswith(" ")]
    assert (done.code, done.err) == (0, "")
    assert [head[0] for head in heads] == ["user", "system", "assistant", "look_up", "assistant"]
    assert (heads[3][2], heads[3][3].split()[1]) == ("ok", "s")
    assert [line for line in lines if line.startswith(" ")] == [
        "  look up",
        "  prompt: tools +look_up",
        '  → look_up {"name": "keys"}',
        "  keys: third drawer",
        "  they are in the third drawer",
    ]


def test_without_a_worker_inputs_are_kept_and_listed_and_the_rest_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARRY_TASK_QUEUE", "cli-nobody")
    submitted = run("submit", "hello", "--conversation", "kept", "--request-id", "r1", "--json")
    listed, told = run("ps"), run("transcript", "kept")
    asked, late = run("ask", "hello", "--json"), run("wait", "kept", "r1", "--timeout", "1")

    assert (submitted.code, submitted.err, submitted.json["accepted_by"]) == (0, "", "server")
    rows = [line.split() for line in listed.out.splitlines()]
    assert ("idle", "kept") in [(row[0], row[-1]) for row in rows]
    assert (told.code, len(told.err.splitlines())) == (2, 1)
    assert told.err.startswith("tarry: no worker serves task queue cli-nobody: start one with `tarry worker")
    assert (asked.code, asked.json["error"]["code"]) == (2, "no_worker")
    assert (late.code, "no worker answers on task queue cli-nobody" in late.err) == (3, True)


async def test_terminal_shows_calls_and_their_output_as_they_happen(tarry: Command) -> None:
    terminal = Terminal()
    try:
        async with tarry.started("ask", "look up", stderr=terminal.slave) as asking:
            await terminal.shows("look_up(name='keys')")
            await terminal.shows("opening the drawer of keys")
            await terminal.shows("keys: third drawer")
            out, _ = await asking.communicate()
    finally:
        terminal.close()

    assert (asking.returncode, out) == (0, b"they are in the third drawer\n")


async def test_ctrl_c_stops_the_run_and_says_so(tarry: Command) -> None:
    terminal = Terminal()
    try:
        async with tarry.started("ask", "talk on", "--conversation", "stopped", stderr=terminal.slave) as asking:
            await terminal.shows("word3")
            done = await interrupt(asking)
            await terminal.shows("interrupted: the run was stopped")
    finally:
        terminal.close()

    assert (done.code, done.out) == (130, "")
    told = (await tarry.run("transcript", "stopped", "--json")).json["entries"]
    assert [entry["kind"] for entry in told] == ["user", "assistant"]
    assert told[1]["message"]["stop"] == "aborted"
    assert (await tarry.run("ask", "still there?", "--conversation", "stopped")).out == "you said: still there?\n"


async def test_held_work_is_listed_and_runs_again_on_retry(tarry: Command) -> None:
    frail = {"TARRY_TASK_QUEUE": "cli-held", "TARRY_RESTART_LIMIT": "1", "TARRY_HEARTBEAT_TIMEOUT": "1"}
    await tarry.run("submit", "kill the worker", "--conversation", "held", "--request-id", "r1", **frail)
    for _ in range(2):
        async with _worker(tarry, **frail) as doomed:
            assert await doomed.wait() == -9
    async with _worker(tarry, **frail, **{cli_app.SPARED: "yes"}):

        async def held() -> list[str]:
            found = (await tarry.run("ps", "--held", "--json", **frail)).json["work"]
            return [item["id"] for item in found if item["conversation_id"] == "held"]

        (held_id,) = await eventually(held)
        late = await tarry.run("wait", "held", "r1", "--timeout", "0.1", **frail)
        retried = await tarry.run("retry", held_id, "--json", **frail)
        answer = await tarry.run("wait", "held", "r1", **frail)

    assert (late.code, f"tarry retry '{held_id}'" in late.err) == (3, True)
    assert (retried.code, retried.json) == (0, {"id": held_id, "accepted_by": "worker"})
    assert answer == Done(0, "you said: kill the worker\n", "")


async def test_reader_that_leaves_early_is_no_error(tarry: Command) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    async with tarry.started("ask", "hello", stdout=writing) as process:
        os.close(writing)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert (process.returncode, err) == (141, b"")
