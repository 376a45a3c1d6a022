"""`tarry drill --all --short`, as a newcomer gives it: all drills pass, and the matrix is the one that is kept."""

from __future__ import annotations

import json
from pathlib import Path

from tarry.drills.registry import DRILLS
from tests.support.programs import ROOT, TARRY, end_of, living_in, start

KEPT = ROOT / "temporal-dev" / "drills" / "matrix.json"
PATIENCE = 900.0
"""Seconds: a minute and a half on a machine that does nothing else."""


async def test_all_drills_pass_and_the_matrix_that_they_make_is_the_one_that_is_kept(tmp_path: Path) -> None:
    ended = await end_of(await start(TARRY, "drill", "--all", "--short", "--json", cwd=tmp_path), PATIENCE)

    assert ended.stdout.count("\n") == 1, ended.stderr
    facts = json.loads(ended.stdout)
    failed = [step for drill in facts["drills"] for step in drill["steps"] if not step["ok"]]
    assert (failed, facts["failed"], ended.code) == ([], 0, 0), ended.stderr
    assert [drill["name"] for drill in facts["drills"]] == [drill.name for drill in DRILLS]
    assert facts["duplicates"] == {"unsafe": 0, "safe": 3, "keyed": 0, "reconciled": 0}
    assert facts["matrix"] == json.loads(KEPT.read_text()), "docs/drills.md says how to keep another one"
    assert living_in(tmp_path) == []
