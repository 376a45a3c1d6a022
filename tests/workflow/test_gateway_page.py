"""docs/webhooks.md is what happens: its application is served, its commands are run, its tables are the code's."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tarry.settings import PREFIX, Settings
from tests.support.command import Command
from tests.support.programs import ROOT, run
from tests.support.waiting import PATIENCE
from workers.gateway_replies import STATUS

PAGE = (ROOT / "docs" / "webhooks.md").read_text()
IMPORTS = """
import uuid
from datetime import timedelta
from tarry import Expired, Received, Sleep, ToolApi, tool
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rows(head: str) -> list[list[str]]:
    """The rows of the table that begins so."""
    _, _, table = PAGE.partition(f"{head}\n")
    lines = table.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


async def test_its_commands_give_the_answer_that_it_shows(server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "my_app.py").write_text(blocks("python")[0])
    serve, send = blocks("bash")
    secret = re.findall(r"^export CI_WEBHOOK_SECRET=(\S+)$", serve, re.MULTILINE)[0]
    start = re.findall(r"^tarry (gateway .*?) +#", serve, re.MULTILINE)[0]
    environment = {"CI_WEBHOOK_SECRET": secret, "TARRY_GATEWAY_PORT": "0", "TARRY_TASK_QUEUE": "webhooks-page"}
    command = Command(tmp_path, environment_of(server.address) | environment)

    async with command.started(*start.split()) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().split()[1]
        script = send.replace("http://127.0.0.1:7280", url).replace("run-1", tmp_path.name)
        done = await run("bash", "-c", script, cwd=tmp_path, CI_WEBHOOK_SECRET=secret)
        process.send_signal(signal.SIGTERM)
        await process.wait()

    shown = json.loads(blocks("json")[0])
    told = json.loads(done.stdout)
    assert re.fullmatch(shown["delivery_id"].replace("…", "[0-9a-f]{40}"), told["delivery_id"])
    assert told == shown | {"delivery_id": told["delivery_id"]}


def test_its_tool_is_one() -> None:
    names: dict[str, object] = {}
    declared, waits, *_ = blocks("python")

    exec(compile(f"{declared}\n{IMPORTS}\n{waits}", "webhooks.md", "exec", dont_inherit=True), names)

    assert getattr(names["run_ci"], "name", None) == "run_ci"


def test_its_table_has_every_answer_with_its_status() -> None:
    told = [
        (word, int(status))
        for statuses, words, _ in rows("| status | answer | meaning |")
        for word in re.findall(r"`(\w+)`", words)
        for status in statuses.split(", ")
    ]

    assert set(STATUS.items()) <= set(told)
    assert {word for word, _ in told} == {*STATUS, "refused"}


@pytest.mark.parametrize("variable", re.findall(rf"`({PREFIX}\w+)`", PAGE))
def test_its_variables_are_settings(variable: str) -> None:
    assert variable.removeprefix(PREFIX).lower() in Settings.model_fields
