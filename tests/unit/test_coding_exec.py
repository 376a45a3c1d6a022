"""Commands of an environment: what they give back, and that a time limit or a Stop kills what they started, no more."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tarry.coding.local import LocalDirectory
from tarry.coding.sandbox import SandboxedDirectory
from tarry.environment import Environment, Exit
from tests.support.coding import EVERY, TREE, Make, needs_sandbox, none_left, tag, tagged

every = pytest.mark.parametrize("make", EVERY)


class Heard:
    """What a command wrote, as it came."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.has_begun = threading.Event()

    def __call__(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.has_begun.set()

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()


def ran(env: Environment, command: str | list[str]) -> tuple[Exit, str]:
    heard = Heard()
    return env.exec(command, heard), heard.text


@every
@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo out; echo err >&2; echo out", 0, "out\nerr\nout\n"),
        (["printf", "%s|", "a b", "$HOME", "*"], 0, "a b|$HOME|*|"),
        ("exit 3", 3, ""),
        ("kill -9 $$", 137, ""),
        ("nonesuch 2>/dev/null", 127, ""),
        ("cat; echo no input", 0, "no input\n"),
        ("printf 'no newline'", 0, "no newline"),
        ("[[ a == a ]] && echo bash", 0, "bash\n"),
    ],
)
def test_command_gives_its_merged_output_and_its_exit_code(
    make: Make, tmp_path: Path, command: str | list[str], code: int, output: str
) -> None:
    assert ran(make(tmp_path), command) == (Exit(code), output)


@every
def test_command_starts_in_the_working_directory_and_changes_the_files_there(make: Make, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    env = make(tmp_path, "src")

    assert ran(env, "pwd; echo 1 > new")[1] == f"{tmp_path}/src\n"
    assert env.open("new").read() == b"1\n"


@every
def test_command_gets_none_of_the_workers_secrets(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    _, output = ran(make(tmp_path), "env")

    assert "secret" not in output
    assert "PATH=" in output


@every
def test_output_comes_while_the_command_runs(make: Make, tmp_path: Path) -> None:
    heard, ends = Heard(), []
    command = "echo begun; until [ -e go ]; do sleep 0.05; done; echo over"
    thread = threading.Thread(target=lambda: ends.append(make(tmp_path).exec(command, heard)))
    thread.start()

    assert heard.has_begun.wait(20)
    assert heard.text == "begun\n"
    (tmp_path / "go").touch()
    thread.join()
    assert (ends, heard.text) == ([Exit(0)], "begun\nover\n")


@every
@pytest.mark.parametrize("way", ["timeout", "stopped", "raising"])
def test_end_by_force_kills_all_that_the_command_started_and_nothing_else(make: Make, tmp_path: Path, way: str) -> None:
    mine, other = tag(), tag()
    bystander = subprocess.Popen(["sleep", other])
    heard, begun = Heard(), time.monotonic()

    def hear(piece: bytes) -> None:
        heard(piece)
        if way == "raising":
            raise RuntimeError("enough")

    try:
        with none_left(mine):
            env, command = make(tmp_path), TREE.format(tag=mine)
            if way == "timeout":
                assert env.exec(command, hear, timeout=2.5) == Exit(137, "timeout")
            elif way == "stopped":
                assert env.exec(command, hear, is_stopped=heard.has_begun.is_set) == Exit(137, "stopped")
            else:
                with pytest.raises(RuntimeError, match="enough"):
                    env.exec(command, hear)
            assert tagged(mine) == []
        assert bystander.poll() is None
        assert heard.text == "begun\n"
        assert time.monotonic() - begun < 10
    finally:
        bystander.kill()
        bystander.wait()


WORKER = """
import sys
from pathlib import Path
from tarry.coding.{module} import {name}
{name}(Path(sys.argv[1])).exec(sys.argv[2], lambda piece: print("begun", flush=True))
"""


@every
def test_worker_that_is_killed_takes_along_all_that_its_commands_started(make: Make, tmp_path: Path) -> None:
    mine = tag()
    made = make(tmp_path)
    program = WORKER.format(module=type(made).__module__.rpartition(".")[2], name=type(made).__name__)
    with none_left(mine):
        worker = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), TREE.format(tag=mine)], stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"begun\n"
        assert len(tagged(mine)) > 1
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        ends = time.monotonic() + 10
        while tagged(mine) and time.monotonic() < ends:
            os.sched_yield()
        assert tagged(mine) == []


@every
def test_what_a_command_leaves_running_is_not_waited_for(make: Make, tmp_path: Path) -> None:
    mine = tag()
    with none_left(mine):
        begun = time.monotonic()
        assert ran(make(tmp_path), f"sleep {mine} & echo over") == (Exit(0), "over\n")
        assert time.monotonic() - begun < 5


def test_what_a_command_leaves_running_goes_on_locally(tmp_path: Path) -> None:
    mine = tag()
    with none_left(mine):
        ran(LocalDirectory(tmp_path), f"sleep {mine} & sleep 0.2")
        assert len(tagged(mine)) == 1


def test_what_a_command_leaves_running_does_not_die_of_its_output(tmp_path: Path) -> None:
    done = tmp_path / "done"
    talk = f"for line in $(seq 50); do echo line; sleep 0.02; done; touch {done}"

    assert ran(LocalDirectory(tmp_path), f"({talk}) & :")[0] == Exit(0)
    ends = time.monotonic() + 30
    while not done.exists() and time.monotonic() < ends:
        os.sched_yield()
    assert done.exists()


def test_command_that_kills_its_own_group_or_its_warden_ends_itself_alone(tmp_path: Path) -> None:
    mine = tag()
    with none_left(mine):
        assert ran(LocalDirectory(tmp_path), f"sleep {mine} & kill -9 0")[0] == Exit(137)
        assert ran(LocalDirectory(tmp_path), f"kill -9 $PPID; sleep {mine}")[0] == Exit(137)
        assert ran(LocalDirectory(tmp_path), "echo here") == (Exit(0), "here\n")


def test_floods_of_output_come_through_whole(tmp_path: Path) -> None:
    end, output = ran(LocalDirectory(tmp_path), "head -c 20000000 /dev/zero | tr '\\0' x")

    assert (end, len(output)) == (Exit(0), 20_000_000)


@needs_sandbox
def test_sandbox_shows_the_root_and_the_system_and_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to("../secret")
    env = SandboxedDirectory(root)
    checkout = Path(__file__).parents[2]
    places = f"cat {tmp_path}/secret out /etc/shadow; ls {tmp_path} {Path.home()} {checkout} /home"

    end, output = ran(env, f"{places}; echo over")

    assert end == Exit(0)
    read = [line for line in output.splitlines() if not re.match(r"(cat|ls): ", line)]
    assert read == [f"{tmp_path}:", "root", "over"]


@needs_sandbox
def test_sandbox_lets_commands_write_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    escape = f"touch {tmp_path}/out /usr/out /etc/out 2>/dev/null; ln -s .. up; touch up/out; touch in; echo over"

    assert ran(SandboxedDirectory(root), escape)[1].endswith("over\n")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["root"]
    assert sorted(found.name for found in root.iterdir()) == ["in", "up"]
    assert not Path("/usr/out").exists()
    assert not Path("/etc/out").exists()


@needs_sandbox
def test_sandbox_shows_no_process_of_the_host_and_none_can_be_signalled(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        output = ran(SandboxedDirectory(tmp_path), f"kill -9 {bystander.pid}; ls /proc | grep -c '^[0-9]'")[1]
        assert int(output.splitlines()[-1]) < 10
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@needs_sandbox
@pytest.mark.parametrize(("network", "interfaces"), [(False, 1), (True, 2)])
def test_sandbox_has_no_network_unless_it_is_allowed(tmp_path: Path, network: bool, interfaces: int) -> None:
    count = "import socket; print(len(socket.if_nameindex()))"

    output = ran(SandboxedDirectory(tmp_path, network=network), ["python3", "-c", count])[1]

    assert min(int(output), 2) == min(interfaces, len(os.listdir("/sys/class/net")))


@needs_sandbox
def test_what_is_listed_as_readable_can_be_read_in_a_sandbox_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "version").write_text("7\n")
    env = SandboxedDirectory(tmp_path / "root", readable=[tmp_path / "tools"])

    output = ran(env, f"cat {tmp_path}/tools/version; touch {tmp_path}/tools/new || echo no")[1]

    assert output.startswith("7\n")
    assert output.endswith("no\n")
    assert [found.name for found in (tmp_path / "tools").iterdir()] == ["version"]


@needs_sandbox
def test_what_a_command_leaves_running_ends_with_it_in_a_sandbox(tmp_path: Path) -> None:
    mine = tag()
    with none_left(mine):
        ran(SandboxedDirectory(tmp_path), f"sleep {mine} & sleep 0.2")
        assert tagged(mine) == []
