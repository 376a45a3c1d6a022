"""`tarry chat` as a person sees it, on a real pseudo-terminal (docs/watching.md)."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import Child, environment_of, worker
from tests.support import chat_app
from tests.support.command import BINARY, Command
from tests.support.terminals import CTRL_C, CTRL_D, at_terminal
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
async def tarry(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The command where a server is configured and a worker serves."""
    folder = tmp_path_factory.mktemp("chat")
    ours = {
        "TARRY_TASK_QUEUE": "chat",
        "TARRY_SHUTDOWN_GRACE": "1",
        "TARRY_HEARTBEAT_TIMEOUT": "2",
        "TARRY_STORE": str(folder / "store"),
    }
    command = Command(folder, environment_of(server.address) | ours)
    async with serve(command):
        yield command


def serve(command: Command, **variables: str) -> Child:
    environment = command.environment | variables
    return worker(chat_app.NAME, log=command.folder / "worker.log", environment=environment)


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


async def test_answer_streams_and_ctrl_d_gives_the_terminal_back(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "streams") as (person, process):
        before = person.modes
        await person.sees("conversation streams")
        person.types("hello")
        await person.sees("› hello")
        await person.sees("you said: hello")
        person.types("look for them")
        await person.sees("opening drawer")
        await person.sees("third drawer")
        await person.sees("heard: keys: third drawer")
        person.presses(CTRL_D)
        assert await ended(process) == 0
        assert person.modes == before


async def test_chat_that_can_keep_no_history_goes_on_without(tarry: Command, tmp_path: Path) -> None:
    (tmp_path / ".tarry").touch()  # so that nobody, root included, makes a folder of it
    async with at_terminal(Command(tmp_path, tarry.environment), "chat", "unkept") as (person, process):
        await person.sees("what is typed here is not kept: .tarry/chat_history cannot be written")
        person.types("hello")
        await person.sees("you said: hello")
        person.presses(CTRL_D)
        assert await ended(process) == 0


async def test_what_is_typed_while_it_runs_steers_and_ctrl_c_stops_the_run(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "steers") as (person, process):
        await person.sees("ready")
        person.types("look")
        await person.sees("opening drawer")
        person.types("and mind the cat")
        await person.sees("queued (steer): and mind the cat")
        await person.sees("› and mind the cat")
        await person.sees("you said: and mind the cat")
        person.types("talk")
        await person.sees("line 2 of the answer")
        person.presses(CTRL_C)
        await person.sees("stopping the run")
        await person.sees("(cut off)")
        await person.sees("ready")
        person.presses(CTRL_C)
        assert await ended(process) == 0


async def test_questions_are_answered_in_place_with_true_receipts(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "questions") as (person, process):
        await person.sees("ready")
        person.types("rm -r build")
        await person.sees("? shell asks")
        await person.sees("[y/n; /later]")
        person.types("n it is needed")
        await person.sees("answer delivered")
        await person.sees("shell")
        person.types("ask")
        await person.sees("? ask_ana asks Ana")
        person.types("blue")
        await person.sees("answer with y, n or JSON")
        person.types('{"colour": "blue"}')
        await person.sees("invalid: ")
        person.types('{"text": "blue"}')
        await person.sees("answer delivered")
        await person.sees("heard: Ana says blue")
        person.types("delegate")
        await person.sees("? ask_ana asks Ana, 2 levels down")
        person.types('{"text": "round"}')
        await person.sees("heard: Ana says round")
        person.types("/quit")
        assert await ended(process) == 0


async def test_worker_that_is_killed_and_started_again_is_waited_for(server: EmbeddedServer, tarry: Command) -> None:
    alone = Command(tarry.folder, tarry.environment | {"TARRY_TASK_QUEUE": "chat-killed"})
    async with serve(alone) as first, at_terminal(alone, "chat", "killed") as (person, process):
        await person.sees("ready")
        person.types("look")
        await person.sees("opening drawer")
        await first.kill()
        await person.sees("chat-killed; it goes on when one is up")
        async with serve(alone):
            await person.sees("heard: keys: third drawer")
        person.presses(CTRL_D)
        assert await ended(process) == 0


async def test_window_may_change_its_size(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "resized") as (person, process):
        await person.sees("ready")
        person.types("look")
        await person.sees("opening drawer")
        for rows, columns in ((10, 40), (50, 160), (4, 20)):
            person.resizes(rows, columns)
            await person.sees("›")
        person.resizes(30, 100)
        await person.sees("third drawer")
        person.presses(CTRL_D)
        assert await ended(process) == 0


async def test_termination_gives_the_terminal_back(tarry: Command) -> None:
    async with at_terminal(tarry, "chat", "terminated") as (person, process):
        before = person.modes
        await person.sees("ready")
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 130
        assert person.modes == before


async def test_script_gives_lines_and_reads_answers(tarry: Command) -> None:
    process = await asyncio.create_subprocess_exec(
        BINARY,
        "chat",
        "scripted",
        cwd=tarry.folder,
        env=tarry.environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(b"one\n\ntwo\n")

    assert (process.returncode, out.decode(), err.decode()) == (0, "you said: one\nyou said: two\n", "")
