"""`tarry demo policies`: what it prints is what happened, it fails when the promise is broken, it leaves no process."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tarry import cli
from tarry.demo.policies import Facts, Policy, PolicyFacts, broken_promises
from tarry.demo.triage import open_ticket, search_logs
from tests.docs.conftest import Demos
from tests.support.programs import TARRY, Ended, end_of, line_with, living_in, run, start

POLICIES: tuple[Policy, ...] = ("default", "safe", "keyed")
INTERRUPTED = "Tool open_ticket was interrupted and may have partially run. Find out what it did before repeating it."

TOLD = """\
A worker is killed inside open_ticket, right after the ticket was opened.

#.# s  default  worker 1 (pid #) serves the agent, a tracker listens at http://127.0.0.1:#
#.# s  default  asked: Investigate the order failures.
#.# s  default  worker 1 was ended by SIGKILL inside open_ticket; the tracker holds TICKET-1
#.# s  default  worker 2 (pid #) serves the agent
#.# s  default  done: The ticket call was interrupted; check the tracker before trying again.
""".splitlines()

TABLE = """\
declaration                   after crash  in the end  runs  committed result
@tool                                   1           1     1  interrupted
@tool(replay="safe"), no key            1           2     2  Opened TICKET-2
@tool(replay="safe"), keyed             1           1     2  Opened TICKET-1
""".splitlines()


async def policies(folder: Path, *options: str, **environment: str) -> Ended:
    return await run(TARRY, "demo", "policies", *options, cwd=folder, **environment)


def masked(line: str) -> str:
    """Without what differs from run to run: numbers that stand alone."""
    return re.sub(r"(?<=pid )\d+|(?<=127\.0\.0\.1:)\d+", "#", re.sub(r"^ *\d+\.\d s", "#.# s", line))


async def test_policies_leave_one_two_and_one_tickets(demos: Demos) -> None:
    ended = demos.printed.ended
    assert (ended.code, ended.stderr, ended.stdout.count("\n")) == (0, "", 1)
    facts = json.loads(ended.stdout)
    found = facts["policies"]
    assert {policy: (found[policy]["after_crash"], found[policy]["tickets"]) for policy in found} == {
        "default": (1, 1),
        "safe": (1, 2),
        "keyed": (1, 1),
    }
    assert [found[policy]["result"] for policy in found] == ["interrupted", "Opened TICKET-2", "Opened TICKET-1"]
    assert [found[policy]["ledger"]["open_ticket"] for policy in found] == [1, 2, 2]
    assert [found[policy]["worker_1"] for policy in found] == ["SIGKILL"] * 3
    assert facts["ledger"] == {"search_logs": 1, "open_ticket": 1}
    assert demos.printed.left_behind == []
    assert_facts_are_what_was_left(demos.printed.folder / facts["state"], found)


def assert_facts_are_what_was_left(state: Path, found: dict[str, Any]) -> None:
    """The tracker's and the ledger's files outlive the demo, and say the same."""
    for policy, facts in found.items():
        tickets = json.loads((state / policy / "tickets.json").read_text())
        lines = (state / policy / "ledger.txt").read_text().splitlines()

        assert [ticket["id"] for ticket in tickets] == facts["ticket_ids"]
        assert lines == [
            "search_logs NullPointerException",
            *["open_ticket NPE in OrderService"] * facts["ledger"]["open_ticket"],
        ]
        entries = facts["transcript"]
        assert [entry["kind"] for entry in entries] == [
            "user",
            "system",
            *["assistant", "tool_result"] * 2,
            "assistant",
        ]
        assert facts["text"] == entries[5]["message"]["text"]
        assert entries[3]["message"]["text"].startswith("matches: 4\n")
    assert INTERRUPTED in found["default"]["text"]
    keys = [ticket["key"] for ticket in json.loads((state / "keyed" / "tickets.json").read_text())]
    assert len(keys) == 1
    assert keys[0]


async def test_policies_tell_a_person_both_sides_and_keep_the_web_ui_up(demos: Demos) -> None:
    story = demos.story

    assert [masked(line) for line in story.lines[:7]] == TOLD
    assert "\n".join(TABLE) in "\n".join(story.lines)
    assert "tracker   1 after the crash, 1 in the end (TICKET-1)" in story.lines
    assert "ledger    search_logs ran once, open_ticket ran once" in story.lines
    assert f"  [error] {INTERRUPTED}" in story.lines
    assert '  → open_ticket {"title": "NPE in OrderService"}' in story.lines
    assert story.page == 200
    assert story.run["workflowExecutionInfo"]["type"]["name"] == "tarry.generation"
    assert (story.ended.code, story.ended.stdout, story.ended.stderr) == (0, "", "")
    assert story.left_behind == []


async def test_ctrl_c_ends_the_demo_with_all_its_processes(tmp_path: Path) -> None:
    process = await start(TARRY, "demo", "policies", cwd=tmp_path)
    await line_with(process, "worker 1 (pid")
    assert len(living_in(tmp_path)) == 4  # itself, the server, the tracker, the worker

    process.send_signal(signal.SIGINT)
    ended = await end_of(process)

    assert (ended.code, ended.stderr) == (130, "tarry: interrupted\n")
    assert living_in(tmp_path) == []


async def test_wrong_setting_is_said_in_one_line(tmp_path: Path) -> None:
    ended = await policies(tmp_path, TARRY_MAX_TURNS="many")

    assert (ended.code, ended.stderr) == (
        2,
        "tarry: TARRY_MAX_TURNS='many' is refused: give a whole number from 1 to 10000\n",
    )
    assert living_in(tmp_path) == []


async def test_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".tarry").write_text("a file, where a folder is wanted")

    ended = await policies(tmp_path)

    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == "tarry: .tarry/demo cannot be written (Not a directory): run this in a folder of yours\n"


def facts_of(result: str, *, tickets: int, runs: int) -> PolicyFacts:
    return PolicyFacts(
        worker_1="SIGKILL",
        after_crash=1,
        tickets=tickets,
        ticket_ids=(),
        ledger={"search_logs": 1, "open_ticket": runs},
        result=result,
        text=result,
        answer="",
        noticed_after=2.0,
        web_ui="",
        transcript=(),
    )


def promised() -> dict[Policy, PolicyFacts]:
    return {
        "default": facts_of("interrupted", tickets=1, runs=1),
        "safe": facts_of("Opened TICKET-2", tickets=2, runs=2),
        "keyed": facts_of("Opened TICKET-1", tickets=1, runs=2),
    }


def whole(policies: dict[Policy, PolicyFacts]) -> Facts:
    return Facts(policies=policies, ledger=policies["default"].ledger, web_ui="", state="")


def test_promised_facts_break_no_promise() -> None:
    assert broken_promises(whole(promised())) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("name", "value"),
    [("worker_1", "exit code 1"), ("after_crash", 0), ("tickets", 3), ("ledger", {}), ("result", "Opened TICKET-9")],
)
def test_any_other_fact_breaks_a_promise(policy: Policy, name: str, value: Any) -> None:
    policies = promised()
    wanted = getattr(policies[policy], name)
    policies[policy] = policies[policy].model_copy(update={name: value})

    assert broken_promises(whole(policies)) == [f"{policy}: {name} is {value!r}, promised is {wanted!r}"]


def test_broken_promise_ends_with_exit_code_1_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = whole({**promised(), "keyed": facts_of("Opened TICKET-2", tickets=2, runs=2)})

    async def see(*_: object) -> Facts:
        return seen

    monkeypatch.setattr("tarry.cli.demo.run_policies", see)
    monkeypatch.chdir(tmp_path)

    code = cli.run(["demo", "policies", "--json"])

    printed = capsys.readouterr()
    difference = "keyed: tickets is 2, promised is 1; keyed: result is 'Opened TICKET-2', promised is 'Opened TICKET-1'"
    assert (code, printed.err) == (1, f"tarry: {difference}\n")
    assert json.loads(printed.out) == {
        "error": {"code": "broken_promise", "message": difference},
        "exit_code": 1,
        **seen.model_dump(mode="json"),
    }


def test_logs_are_searched_by_regular_expression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_LEDGER", str(tmp_path / "ledger.txt"))

    found = search_logs.function(r"timeout after \d+ MS")

    assert found.splitlines() == [
        "matches: 1",
        "payment-service.log:3: 2026-11-29T09:45:58.377Z WARN  provider=acme-pay timeout after 2000 ms, attempt 1 of 3",
    ]
    assert (tmp_path / "ledger.txt").read_text() == "search_logs timeout after \\d+ MS\n"


def test_missing_tracker_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_LEDGER", str(tmp_path / "ledger.txt"))
    monkeypatch.setenv("TRIAGE_TRACKER", "http://127.0.0.1:9")

    with pytest.raises(ConnectionError, match=r"no tracker answers at http://127\.0\.0\.1:9: start one with"):
        open_ticket.function("NPE")
