"""`tarry demo ci`: one build in each run, whoever dies; what it prints is what happened, and it leaves no process."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tarry import cli
from tarry.demo.ci.scenarios import PROMISED, PROMISED_RESULTS, CiFacts, CiStory, broken_ci_promises
from tests.docs.conftest import CiDemo
from tests.support.programs import TARRY, end_of, living_in, run, start

DONE = "done: The test depended on the order of a set; I mended labels.py. CI passed: http://127.0.0.1:#/builds/build-"

TOLD = f"""\
An agent waits for CI: nobody is up when the answer comes, a worker dies before the wait, somebody says Stop.

#.# s  away     worker 1 (pid #) serves the agent
#.# s  away     a gateway listens at http://127.0.0.1:#, a CI service at http://127.0.0.1:#
#.# s  away     asked: Fix the flaky test and verify it.
#.# s  away     run_ci waits for build-1, which was asked for once
#.# s  away     worker 1 was stopped; workers that run: 0
#.# s  away     CI ran the tests: passed; the gateway answered its webhook with 202; workers that run: 0
#.# s  away     worker 2 (pid #) serves the agent
#.# s  away     {DONE}1/log
#.# s  killed   asked: Fix the flaky test and verify it.
#.# s  killed   worker 2 was ended by SIGKILL between trigger and park; build-2 is there
#.# s  killed   worker 3 (pid #) serves the agent
#.# s  killed   run_ci waits for build-2, which was asked for 2 times
#.# s  killed   CI ran the tests: passed; the gateway answered its webhook with 200; workers that run: 1
#.# s  killed   {DONE}2/log
#.# s  stopped  asked: Fix the flaky test and verify it.
#.# s  stopped  run_ci waits for build-3, which was asked for once
#.# s  stopped  pressed Stop
#.# s  stopped  unanswered: aborted
#.# s  stopped  the CI service says of build-3: cancelled
""".splitlines()


def masked(line: str) -> str:
    """Without what differs from run to run: seconds, process ids, ports, and how soon a worker answered the gateway."""
    line = re.sub(r"(?<= killed   )(.* with )20[02]", r"\g<1>200", line)
    return re.sub(r"(?<=pid )\d+|(?<=127\.0\.0\.1:)\d+", "#", re.sub(r"^ *\d+\.\d s", "#.# s", line))


async def test_each_run_starts_one_build_and_the_webhook_needs_no_worker(ci_demo: CiDemo) -> None:
    ended = ci_demo.printed

    assert (ended.code, ended.stderr, ended.stdout.count("\n")) == (0, "", 1)
    assert json.loads(ended.stdout) == {
        "ci": {"builds": [1, 1, 1], "cancelled": [False, False, True], "workers_when_webhook_came": 0}
    }
    assert ci_demo.left_behind == []


async def test_person_is_told_each_step(ci_demo: CiDemo) -> None:
    assert (ci_demo.story.code, ci_demo.story.stderr) == (0, "")
    assert [masked(line) for line in ci_demo.lines[: len(TOLD)]] == TOLD


async def test_person_is_told_what_a_shell_says_of_the_parked_call(ci_demo: CiDemo) -> None:
    lines = ci_demo.lines
    (task_id,) = {found for line in lines for found in re.findall(r"away~[0-9a-f]{12}/g1/t2\.0", line)}
    ps, explain, wake = (lines[lines.index(f"$ tarry {c}") + 1 :] for c in ("ps", f"explain '{task_id}'", "wake"))

    assert [line.split()[0] for line in ps[:4]] == ["STATE", "sleeping", "running", "busy"]
    assert explain[0] == "run_ci waits for demo.ci-result/done or its deadline"
    assert wake[0].startswith("idle until ")
    value = '{"key": "done", "value": {"status": "passed", "log_url": "https://ci.example/log"}}'
    command = f"temporal workflow signal --workflow-id '{task_id}' --name demo.ci-result --input '{value}'"
    assert lines[lines.index("What would wake it, from any shell") + 2] == command


async def test_ctrl_c_ends_the_demo_with_all_its_processes(tmp_path: Path) -> None:
    process = await start(TARRY, "demo", "ci", cwd=tmp_path)
    assert process.stdout is not None
    async for line in process.stdout:
        if b"run_ci waits" in line:
            break
    assert len(living_in(tmp_path)) == 5  # itself, the server, the gateway, the CI service, the worker

    process.send_signal(signal.SIGINT)
    ended = await end_of(process)

    assert (ended.code, ended.stderr) == (130, "tarry: interrupted\n")
    assert living_in(tmp_path) == []


async def test_options_before_the_name_of_a_demo_are_refused(tmp_path: Path) -> None:
    ended = await run(TARRY, "demo", "--keep", "ci", cwd=tmp_path)

    assert (ended.code, ended.stdout) == (2, "")
    assert "give options after the name: tarry demo ci" in ended.stderr


def story_of(facts: CiFacts, results: tuple[str, ...] = PROMISED_RESULTS) -> CiStory:
    return CiStory(facts=facts, said=(), wakes="", results=results, web_ui="")


@pytest.mark.parametrize(
    ("name", "value"),
    [("builds", (1, 2, 1)), ("cancelled", (False, False, False)), ("workers_when_webhook_came", 1)],
)
def test_any_other_fact_breaks_a_promise(name: str, value: Any) -> None:
    facts = PROMISED.model_copy(update={name: value})

    assert broken_ci_promises(story_of(PROMISED)) == []
    assert broken_ci_promises(story_of(facts)) == [f"ci: {name} is {value!r}, promised is {getattr(PROMISED, name)!r}"]


def test_any_other_result_breaks_a_promise() -> None:
    (broken,) = broken_ci_promises(story_of(PROMISED, ("CI passed", "interrupted", "aborted")))

    assert broken.startswith("ci: results is ('CI passed', 'interrupted', 'aborted'), promised is ")


def test_broken_promise_ends_with_exit_code_1_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = CiFacts(builds=(1, 2, 1), cancelled=(False, False, True), workers_when_webhook_came=0)

    async def see(*_: object) -> CiStory:
        return story_of(facts)

    monkeypatch.setattr("tarry.cli.demo.run_ci_scenes", see)
    monkeypatch.chdir(tmp_path)

    code = cli.run(["demo", "ci", "--json"])

    printed = capsys.readouterr()
    difference = "ci: builds is (1, 2, 1), promised is (1, 1, 1)"
    assert (code, printed.err) == (1, f"tarry: {difference}\n")
    assert json.loads(printed.out) == {
        "error": {"code": "broken_promise", "message": difference},
        "exit_code": 1,
        "ci": facts.model_dump(mode="json"),
    }


def test_whole_demo_plays_every_scenario_and_prints_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def see_policies(*_: object) -> dict[str, object]:
        return {"policies": {}, "state": "here"}

    async def see_ci(*_: object) -> dict[str, object]:
        return {"ci": {}}

    monkeypatch.setattr("tarry.cli.demo._policies", see_policies)
    monkeypatch.setattr("tarry.cli.demo._ci", see_ci)
    monkeypatch.chdir(tmp_path)

    code = cli.run(["demo", "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"policies": {}, "state": "here", "ci": {}}
