"""Children: ready when they say so, ended in order or by force, and never without an owner."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import Child, ChildError, environment_of
from tarry.testing import Stage
from tests.support.programs import start
from tests.support.waiting import PATIENCE, eventually

SERVES = "import time; print('up', 7, flush=True); time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVES}"

OWNS = """
import asyncio, os, sys
from pathlib import Path
from tarry.processes import Child

async def main():
    child = Child("it", [sys.executable, "-c", sys.argv[1]], ready="^up", log=Path("it.log"), environment=os.environ)
    await child.start()
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""


def child(code: str, folder: Path) -> Child:
    command = [sys.executable, "-c", code]
    return Child("the program", command, ready=r"^up \d+$", log=folder / "its.log", environment=os.environ)


def bytes_read() -> int:
    """By this thread so far: to its process Linux adds what each child has read that was waited for."""
    return int(Path("/proc/thread-self/io").read_text().split()[1])


async def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_child_is_ready_when_its_line_appears(tmp_path: Path) -> None:
    async with child(f"print('not yet'); {SERVES}", tmp_path) as running:
        assert (running.ready_line, running.pid is not None) == ("up 7", True)

    assert (running.pid, await running.wait()) == (None, -signal.SIGTERM)


async def test_child_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    started = child("import sys; print('looking'); sys.exit('no port is free')", tmp_path)

    with pytest.raises(ChildError) as raised:
        await started.start()

    assert str(raised.value).splitlines() == [
        f"the program ended with exit code 1; the end of {tmp_path / 'its.log'}:",
        "looking",
        "no port is free",
    ]


async def test_restart_waits_for_a_line_of_the_new_process(tmp_path: Path) -> None:
    running = child("import os, time; print('up', os.getpid(), flush=True); time.sleep(600)", tmp_path)
    await running.start()
    first = running.ready_line
    await running.kill()

    await running.start()

    assert (running.ready_line != first, running.ready_line) == (True, f"up {running.pid}")
    await running.kill()


async def test_what_a_child_says_is_found_over_two_writes_and_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    noise = 1_000_000
    code = f"""
import time
print("up 7\\n" + "{"x" * 99}\\n" * {noise // 100}, flush=True)
time.sleep(0.6)
print("the wo", end="", flush=True)
time.sleep(0.1)
print("rd is out", flush=True)
time.sleep(600)
"""
    async with child(code, tmp_path) as running:
        before = bytes_read()
        said = await running.says(r"^the word is \S+$", patience=PATIENCE)
        read = bytes_read() - before

    assert said == "the word is out"
    assert read < 3 * noise, "fifty times a second it would be thirty times as much"


async def test_child_that_ignores_its_stop_is_killed(tmp_path: Path) -> None:
    running = child(IGNORES_SIGTERM, tmp_path)
    await running.start()

    await running.stop(patience=0.1)

    assert (running.pid, await running.wait()) == (None, -signal.SIGKILL)


async def test_repeated_stop_and_kill_do_nothing(tmp_path: Path) -> None:
    running = child(SERVES, tmp_path)
    await running.stop()
    await running.start()
    await running.kill()

    await running.kill()
    await running.stop()

    assert await running.wait() == -signal.SIGKILL


async def test_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    silent = child("import time; time.sleep(600)", tmp_path)
    starting = asyncio.create_task(silent.start())

    async def its_pid() -> int | None:
        return silent.pid

    pid = await eventually(its_pid)

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert pid is not None
    assert await is_gone(pid)


async def test_child_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner = await start(sys.executable, "-c", OWNS, SERVES, cwd=tmp_path)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())

    owner.kill()
    await owner.wait()

    assert await eventually(lambda: is_gone(pid))


def test_environment_of_a_local_server_keeps_no_other_temporal_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEMPORAL_API_KEY", "TEMPORAL_TLS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE"):
        monkeypatch.setenv(name, "of another server")
    monkeypatch.setenv("OTHER", "kept")

    environment = environment_of("127.0.0.1:7")

    temporal = {name: value for name, value in environment.items() if name.startswith("TEMPORAL_")}
    assert temporal == {"TEMPORAL_ADDRESS": "127.0.0.1:7", "TEMPORAL_CONFIG_FILE": "/dev/null"}
    assert environment["OTHER"] == "kept"


async def test_stage_tells_why_a_worker_cannot_start(server: EmbeddedServer) -> None:
    async with Stage("no.such:app", server=server) as stage:
        with pytest.raises(ChildError, match=r"exit code 2; .*\nworker: app 'no.such:app': there is no module no"):
            await stage.start_worker()

        folder = stage.folder

    assert not folder.exists()


async def test_stages_on_one_server_do_not_serve_each_other(server: EmbeddedServer) -> None:
    async with (
        Stage("tarry.demo.triage:scripted", server=server) as one,
        Stage("tarry.demo.triage:scripted", server=server) as other,
    ):
        await other.start_worker()

        submission = await one.harness.conversation().submit("Is anybody there?")

        assert (submission.view, one.harness.settings.task_queue != other.harness.settings.task_queue) == (None, True)
