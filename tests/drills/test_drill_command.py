"""`tarry drill`: it plays on a server of its own, tells each step, fails when one does, and leaves no process."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from tarry import cli
from tarry.drills.kit.drill import Drill, Play, drill
from tarry.drills.kit.ground import Ground
from tarry.drills.kit.report import DrillReport
from tarry.drills.kit.runner import play
from tarry.drills.registry import DRILLS
from tests.support.programs import TARRY, Ended, end_of, line_with, living_in, run, start
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
async def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """One drill, played where the server that is configured does not answer, and a setting of ours is not allowed."""
    folder = tmp_path_factory.mktemp("drill")
    hostile = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "TARRY_HEARTBEAT_TIMEOUT": "never"}
    return await run(TARRY, "drill", "list-parked", "--short", "--json", cwd=folder, **hostile), folder


async def test_a_drill_tells_of_each_step_what_it_did_expected_and_found(listed: tuple[Ended, Path]) -> None:
    ended, folder = listed
    facts = json.loads(ended.stdout)
    assert (facts["failed"], facts["short"], facts["matrix"]) == (0, True, [])
    assert facts["duplicates"] == {"unsafe": 0, "safe": 0, "keyed": 0, "reconciled": 0}
    (told,) = facts["drills"]
    assert (told["name"], told["ok"], told["problem"]) == ("list-parked", True, "")
    for step in told["steps"]:
        assert all(step[part] for part in ("did", "expected", "found", "ok"))
        assert f"list-parked: {step['title']}" in ended.stderr, "progress, while it runs"
    assert living_in(folder) == []


async def test_a_drill_never_touches_the_server_that_is_configured(listed: tuple[Ended, Path]) -> None:
    ended, folder = listed
    (told,) = json.loads(ended.stdout)["drills"]
    assert ended.code == 0, ended.stderr
    assert (folder / told["state"] / "temporal.db").exists(), "it had a server of its own"


async def test_the_list_names_every_drill_and_so_does_the_refusal_of_another_name(tmp_path: Path) -> None:
    listed = await run(TARRY, "drill", "--list", "--json", cwd=tmp_path)
    refused = await run(TARRY, "drill", "no-such", cwd=tmp_path)

    assert [one["name"] for one in json.loads(listed.stdout)["drills"]] == [one.name for one in DRILLS]
    assert refused.code == 2
    assert refused.stderr.startswith(
        "tarry: there is no drill 'no-such': known are " + ", ".join(one.name for one in DRILLS)
    )


async def test_a_check_that_fails_fails_the_drill_and_the_next_step_is_made(tmp_path: Path) -> None:
    async def goes_on(on: Ground) -> None:
        async with on.step("Count", expected="two") as step:
            step.check("counted", 1, 2)
        async with on.step("Count again", expected="one") as step:
            step.check("counted", 1, 1)

    report = await played(goes_on, tmp_path)

    assert (report.ok, report.problem) == (False, "")
    assert [(step.ok, step.found) for step in report.steps] == [
        (False, ("counted: 1 (wanted: 2)",)),
        (True, ("counted: 1",)),
    ]


async def test_a_command_that_fails_ends_the_drill_and_what_it_started_is_ended(tmp_path: Path) -> None:
    async def breaks(on: Ground) -> None:
        await on.worker()
        async with on.step("Look", expected="a workflow") as step:
            await step.temporal("workflow", "describe", "-w", "no-such")
        raise AssertionError("unreachable")

    report = await played(breaks, tmp_path)

    (step,) = report.steps
    assert (report.ok, step.ok, step.did) == (False, False, ("temporal workflow describe -w no-such",))
    assert report.problem == step.found[-1]
    assert report.problem.startswith("CommandFailed: `temporal workflow describe -w no-such` ended with exit code 1")
    assert living_in(tmp_path) == []


async def played(play_it: Play, folder: Path) -> DrillReport:
    return await play(Drill("one", "One.", play_it), folder / "one", short=True, progress=lambda *_: None)


def test_a_drill_that_fails_ends_the_command_with_code_1_and_all_its_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wrong(on: Ground) -> None:
        """It is wrong."""
        async with on.step("Count", expected="two") as step:
            step.check("counted", 1, 2)

    monkeypatch.setattr("tarry.drills.registry.DRILLS", (drill("wrong")(wrong),))
    monkeypatch.chdir(tmp_path)

    code = cli.run(["drill", "wrong", "--json"])

    facts = json.loads(capsys.readouterr().out)
    assert (code, facts["exit_code"], facts["failed"], facts["error"]["code"]) == (1, 1, 1, "drill_failed")
    assert facts["drills"][0]["steps"][0]["found"] == ["counted: 1 (wanted: 2)"]


async def test_ctrl_c_ends_the_command_with_all_its_processes(tmp_path: Path) -> None:
    process = await start(TARRY, "drill", "crash-matrix", "--short", cwd=tmp_path)
    await eventually(lambda: the_programs_in(tmp_path), lambda found: "workers.worker" in found)

    process.send_signal(signal.SIGINT)
    ended = await end_of(process)

    assert (ended.code, ended.stderr.splitlines()[-1]) == (130, "tarry: interrupted")
    assert living_in(tmp_path) == []


async def the_programs_in(folder: Path) -> str:
    return "\n".join(living_in(folder))


async def test_a_server_that_is_kept_shows_its_pages_until_ctrl_c(tmp_path: Path) -> None:
    process = await start(TARRY, "drill", "list-parked", "--keep", cwd=tmp_path)
    await line_with(process, "did       temporal workflow list --query")
    page = (await line_with(process, "The server is up until Ctrl-C: ")).split()[-1]
    async with httpx.AsyncClient() as client:
        status = (await client.get(page, follow_redirects=True)).status_code

    process.send_signal(signal.SIGINT)
    ended = await end_of(process)

    assert (status, ended.code) == (200, 0)
    assert living_in(tmp_path) == []


async def test_two_drills_cannot_be_kept_at_once(tmp_path: Path) -> None:
    ended = await run(TARRY, "drill", "--all", "--keep", cwd=tmp_path)

    assert (ended.code, ended.stderr.count("\n")) == (2, 1)
    assert "--keep is for one drill: name it" in ended.stderr
