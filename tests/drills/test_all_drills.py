"""`tarry drill --all --short`, as a newcomer gives it, once: every drill finds what it expects.

The matrix that they make is the one that is kept, and the commands that they give are those of the runbook.
"""

from __future__ import annotations

import faulthandler
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from tarry.drills.kit.report import DrillReport
from tarry.drills.registry import DRILLS
from tests.support.programs import ROOT, TARRY, Ended, end_of, living_in, start

KEPT = ROOT / "temporal-dev" / "drills" / "matrix.json"
RUNBOOK = ROOT / "temporal-dev" / "drills" / "README.md"
PATIENCE = 900.0
"""Seconds: two minutes on a machine that does nothing else."""

STANDS_FOR = {
    r"[\w-]+~[0-9a-f]{12}/g\d+/t\d+\.\d+(~\d+)?": "$CALL",
    r"[\w-]+~[0-9a-f]{12}/g\d+": "$RUN",
    r"party|gala|fair": "$CONVERSATION",
    r".*/answer\.json": "answer.json",
}
"""What the runbook has in the place of an argument."""


@dataclass(frozen=True)
class Played:
    """What the command told, and the processes that it left behind."""

    ended: Ended
    left: list[str]

    @property
    def facts(self) -> dict[str, Any]:
        """Its one line."""
        facts: dict[str, Any] = json.loads(self.ended.stdout)
        return facts

    def report(self, name: str) -> DrillReport:
        """That of one drill."""
        return next(DrillReport.model_validate(drill) for drill in self.facts["drills"] if drill["name"] == name)


@pytest.fixture(scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All drills, played once."""
    # What pytest's own timer is for, work that hangs, is told here by the patience.
    faulthandler.cancel_dump_traceback_later()
    folder = tmp_path_factory.mktemp("drills")
    ended = await end_of(await start(TARRY, "drill", "--all", "--short", "--json", cwd=folder), PATIENCE)
    return Played(ended, living_in(folder))


async def test_all_drills_pass_and_the_matrix_that_they_make_is_the_one_that_is_kept(played: Played) -> None:
    assert played.ended.stdout.count("\n") == 1, played.ended.stderr
    facts = played.facts
    failed = [step for drill in facts["drills"] for step in drill["steps"] if not step["ok"]]
    assert (failed, facts["failed"], played.ended.code) == ([], 0, 0), played.ended.stderr
    assert [drill["name"] for drill in facts["drills"]] == [drill.name for drill in DRILLS]
    assert facts["duplicates"] == {"unsafe": 0, "safe": 3, "keyed": 0, "reconciled": 0}
    assert facts["matrix"] == json.loads(KEPT.read_text()), "docs/drills.md says how to keep another one"
    assert played.left == []


@pytest.mark.parametrize("name", [drill.name for drill in DRILLS])
async def test_each_step_of_a_drill_tells_what_it_did_expected_and_found(played: Played, name: str) -> None:
    report = played.report(name)

    assert (report.ok, report.problem) == (True, "")
    for step in report.steps:
        assert all((step.did, step.expected, step.found)), step


@pytest.mark.parametrize("name", [drill.name for drill in DRILLS if drill.name != "crash-matrix"])
async def test_commands_of_the_runbook_are_those_of_the_drill(played: Played, name: str) -> None:
    assert in_runbook()[name] == list(dict.fromkeys(given(played.report(name))))


def test_each_command_of_the_runbook_has_its_form_in_tctl() -> None:
    table = RUNBOOK.read_text().partition("## In tctl")[2]
    commands = [shlex.split(line) for line in chain(*in_runbook().values())]
    verbs = {" ".join(words[1:3]) for words in commands if words[0] == "temporal"}

    assert {verb for verb in verbs if f"`{verb}" not in table} == set()


def given(report: DrillReport) -> Iterator[str]:
    """The commands that a drill gave, in order, as the runbook has them."""
    for what in chain(*(step.did for step in report.steps)):
        if what.startswith(("temporal ", "tarry ")):
            words = [as_written(word) for word in shlex.split(what)]
            if "--event-id" in words:
                words[words.index("--event-id") + 1] = "$EVENT"
            yield shlex.join(words)


def as_written(word: str) -> str:
    """An argument as the runbook has it."""
    name = next((name for pattern, name in STANDS_FOR.items() if re.fullmatch(pattern, word)), word)
    return re.sub(r'(?<=TarryDeadline < )"[^"]+"', '"$TIME"', name)


def in_runbook() -> dict[str, list[str]]:
    """The commands of the runbook by the drill under whose name they stand."""
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return {
        name: [shlex.join(shlex.split(line)) for block in _BLOCK.findall(text) for line in block.splitlines()]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
