"""The drills that go through the `temporal` command: each is played in its short form, and finds what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.drills.kit.report import DrillReport
from tarry.drills.kit.runner import play_all
from tarry.drills.registry import DRILLS

PLAYED = [drill for drill in DRILLS if drill.name != "crash-matrix"]
"""That one has tests of its own."""


@pytest.fixture(scope="module")
async def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DrillReport]:
    """How each of them went, by name; all are played once, beside each other."""
    folder: Path = tmp_path_factory.mktemp("drills")
    played = await play_all(PLAYED, folder, short=True, progress=lambda drill, step: None, over=lambda report: None)
    return {report.name: report for report in played}


@pytest.mark.parametrize("name", [drill.name for drill in PLAYED])
async def test_drill_finds_what_it_expects(reports: dict[str, DrillReport], name: str) -> None:
    report = reports[name]

    assert [step for step in report.steps if not step.ok] == []
    assert (report.ok, report.problem) == (True, "")
    for step in report.steps:
        assert all((step.did, step.expected, step.found)), step
