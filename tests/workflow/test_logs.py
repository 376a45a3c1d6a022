"""What processes log (spec §24.8): for people as ever, or one JSON object a line that says what it is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx

from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tarry.testing import Stage
from tests.support.collector import collecting
from tests.support.seen_app import NAME, SECRET

JSON = {"TARRY_LOG_FORMAT": "json"}


def lines(child: Child) -> list[dict[str, Any]]:
    """The lines of a log that are JSON; what a process says when it serves is none."""
    return [json.loads(line) for line in child.log.read_text().splitlines() if line.startswith("{")]


async def test_a_line_says_in_which_call_of_which_conversation_and_trace_it_was_logged(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with collecting() as collector:
        async with Stage(NAME, server=server, folder=tmp_path) as stage:
            worker = await stage.start_worker(**JSON, **collector.environment)
            submission = await stage.harness.conversation("logged").submit("nest")
            run = (await submission.wait()).generation_id
            [line] = [line for line in lines(worker) if line["logger"] == "app"]

    at, pid = line.pop("at"), line.pop("pid")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", at)
    assert pid > 0
    [span] = collector.of("run_tool outer")
    assert line == {
        "level": "info",
        "logger": "app",
        "message": "the word is [hidden]",
        "process": "worker",
        "conversation_id": "logged",
        "task_id": f"{run}/t1.0",
        "activity": "tarry.tool-run",
        "tool": "outer",
        "attempt": 1,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
    }


async def test_without_a_collector_a_line_has_everything_but_a_trace(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(**JSON)
        await (await stage.harness.conversation("untraced").submit("nest")).wait()
        [line] = [line for line in lines(worker) if line["logger"] == "app"]

    assert (line["conversation_id"], line["tool"]) == ("untraced", "outer")
    assert "trace_id" not in line


async def test_a_traceback_is_one_field_and_passes_the_redactor(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker(**JSON)
        await (await stage.harness.conversation("traceback").submit("rage")).wait()
        [line] = [line for line in lines(worker) if "error" in line]
        text = worker.log.read_text()

    assert line["level"] == "error"
    assert line["error"].splitlines()[0] == "Traceback (most recent call last):"
    assert line["error"].splitlines()[-1] == "KeyError: 'no [hidden] either'"
    assert SECRET not in text


async def test_lines_for_people_stay_what_they_were_and_the_level_can_be_set(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        worker = await stage.start_worker()
        await (await stage.harness.conversation("people").submit("nest")).wait()
        quiet = await stage.start_worker(TARRY_LOG_LEVEL="warning")
        await quiet.stop()
        await worker.stop()

    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO app the word is \[hidden\]"
    assert len(re.findall(f"^{form}$", worker.log.read_text(), re.MULTILINE)) == 1
    assert " INFO " not in quiet.log.read_text()


async def test_a_gateway_logs_its_lines_as_json_too(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(NAME, server=server, folder=tmp_path) as stage:
        gateway = await stage.start_gateway(**JSON)
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(f"{gateway.ready_line}/webhooks/unknown")
        [line] = [line for line in lines(gateway) if line["logger"] == "tarry.gateway"]

    assert (line["process"], json.loads(line["message"])["status"]) == ("gateway", 404)
