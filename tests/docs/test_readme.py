"""Every code block of README.md is run, in its order, in a fresh folder that has the checkout's `.venv`.

Only what the machine of a test cannot give is not as written: servers take free ports, and `make demo` and `make test`,
which would run these tests again, only say what they run.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs.conftest import CiDemo, Demos
from tests.support.programs import ROOT, Ended, end_of, living_in, run, start
from tests.support.scripted_provider import CHAT_ANSWER, Reply, ScriptedProvider, chat_call, chat_chunk, sse

README = (ROOT / "README.md").read_text()
MOST_LINES = 250
FIRST_COMMAND = 25

DEV = ".venv/bin/tarry dev "
KEY = "OPENAI_API_KEY="
FREE_PORTS = "--port 0 --ui-port 0 --json"
OWN_SERVER = "--embedded"
"""Without it `tarry ask` uses the server that it finds on the default port, and here one may be."""
TICKET = Reply((sse(chat_call(0, "c1", "open_ticket", '{"title": "NPE"}'), chat_chunk("tool_calls"), "[DONE]"),))


@dataclass
class Played:
    """What became of the commands, in their order; `told`: what `tarry dev` said, `keys`: what the provider saw."""

    ends: list[tuple[str, Ended]] = field(default_factory=list)
    told: str = ""
    keys: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    def add(self, command: str, ended: Ended) -> None:
        self.ends.append((command, ended))

    def of(self, beginning: str) -> list[Ended]:
        """The ends of the commands that begin so."""
        return [ended for command, ended in self.ends if command.startswith(beginning)]


def blocks(language: str) -> list[str]:
    """The texts of all fenced blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The lines of all bash blocks, in order."""
    return "".join(blocks("bash")).splitlines()


@pytest.fixture(scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All commands; `tarry dev` is up for those after it, until one brings a key and a server of its own."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / ".venv").symlink_to(sys.prefix)
    played, given = Played(), commands()
    while given:
        command = given.pop(0)
        if command.startswith("make "):
            played.add(command, await only_said(command))
        elif command.startswith(DEV):
            async with serving(command, folder, played) as address:
                while not given[0].startswith(KEY):
                    command = given.pop(0)
                    played.add(command, await bash(command, folder, TEMPORAL_ADDRESS=address))
        else:
            await ask_with_a_key(command, folder, played)
    played.left_behind = living_in(folder)
    return played


async def only_said(command: str) -> Ended:
    return await run(*command.split(), "--just-print", "--no-print-directory", cwd=ROOT, MAKEFLAGS="")


async def bash(command: str, folder: Path, **environment: str) -> Ended:
    return await run("bash", "-c", command, cwd=folder, **environment)


@asynccontextmanager
async def serving(command: str, folder: Path, played: Played) -> AsyncIterator[str]:
    """A server and a worker in another terminal, ended by Ctrl-C; the address of the server."""
    process = await start("bash", "-c", f"exec {command} {FREE_PORTS}", cwd=folder)
    assert process.stdout is not None
    try:
        played.told = (await process.stdout.readline()).decode()
        yield json.loads(played.told)["address"]
    finally:
        process.send_signal(signal.SIGINT)
        played.add(command, await end_of(process))


async def ask_with_a_key(command: str, folder: Path, played: Played) -> None:
    async with ScriptedProvider(TICKET, CHAT_ANSWER) as provider:
        played.add(command, await bash(f"{command} {OWN_SERVER}", folder, OPENAI_BASE_URL=provider.base_url))
    played.keys = [request.headers["authorization"] for request in provider.requests]


def test_every_command_ends_well_and_leaves_no_process(played: Played) -> None:
    assert sorted(command for command, _ in played.ends) == sorted(commands())
    assert [(command, ended.stderr) for command, ended in played.ends if ended.code] == []
    assert played.left_behind == []


def test_make_runs_the_demo_and_all_tests(played: Played) -> None:
    (demo,), (test,) = played.of("make demo"), played.of("make test")

    assert demo.stdout.splitlines()[-1] == ".venv/bin/tarry demo"
    checks = [".venv/bin/ruff check .", ".venv/bin/mypy", ".venv/bin/pyright", ".venv/bin/pytest -n 3 --dist loadfile"]
    assert [line for line in test.stdout.splitlines() if line in checks] == checks


def test_quoted_tables_are_what_the_demos_print(demos: Demos, ci_demo: CiDemo) -> None:
    of_policies, of_ci = blocks("text")

    assert of_policies in "\n".join([*demos.story.lines, ""])
    assert of_ci in "\n".join([*ci_demo.lines, ""])


def test_agent_of_the_other_terminal_is_asked_read_and_listed(played: Played) -> None:
    (ask,), (transcript,), (ps,) = [played.of(f".venv/bin/tarry {name}") for name in ("ask", "transcript", "ps")]

    assert json.loads(played.told)["event"] == "ready"
    assert ask.stdout == "Orders fail with a NullPointerException in OrderService. Opened TICKET-1.\n"
    assert "Investigate the order failures." in transcript.stdout
    assert '→ open_ticket {"title": "NPE in OrderService"}' in transcript.stdout
    (listed,) = [line.split() for line in ps.stdout.splitlines()[1:]]
    assert (listed[:2], listed[-1]) == (["idle", "conversation"], "orders")


def test_input_is_admitted_once_for_its_request_id(played: Played) -> None:
    first, second = played.of(".venv/bin/tarry submit")
    (answer,) = played.of(".venv/bin/tarry wait")

    assert first.stdout.splitlines()[:2] == second.stdout.splitlines()[:2]
    # Of two runs the second would have opened the third ticket.
    assert answer.stdout == "Orders fail with a NullPointerException in OrderService. Opened TICKET-2.\n"


def test_key_is_all_it_takes_to_ask_a_real_model(played: Played) -> None:
    (ask,) = played.of(KEY)

    assert ask.stdout == "fine\n"
    assert played.keys == ["Bearer sk-your-key"] * 2


def programs() -> list[tuple[str, ...]]:
    """Each program's text, file, command, and what is said that it prints."""
    said = re.findall(r"Saved as `(\S+)` and run with `(.+)`, it prints `(.+?)`", README)
    return [(text, *told) for text, told in zip(blocks("python"), said, strict=True)]


@pytest.mark.parametrize(("program", "file", "command", "printed"), programs())
async def test_program_prints_what_is_said_of_it(
    program: str, file: str, command: str, printed: str, tmp_path: Path
) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / file).write_text(program)

    ended = await bash(command, tmp_path)

    assert (ended.code, ended.stdout, ended.stderr) == (0, f"{printed}\n", "")
    assert living_in(tmp_path) == []


def test_no_block_is_in_a_language_that_nobody_runs() -> None:
    assert set(re.findall(r"^```(\w*)$", README, re.MULTILINE)) == {"bash", "python", "text", ""}


def test_readme_is_short_and_begins_with_a_command() -> None:
    lines = README.splitlines()

    assert len(lines) <= MOST_LINES
    assert lines.index("```bash") < FIRST_COMMAND


def pages() -> list[str]:
    """All pages of the checkout; what a tool keeps in a hidden folder is none."""
    found = [page.relative_to(ROOT) for pattern in ("*.md", "*/*.md") for page in ROOT.glob(pattern)]
    return sorted(str(page) for page in found if not page.parts[0].startswith("."))


@pytest.mark.parametrize("page", pages())
def test_relative_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", file.read_text())]

    assert [link for link in targets if ":" not in link and not (file.parent / link).exists()] == []
