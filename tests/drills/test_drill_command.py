"""`tarry drill`: it plays on a server of its own, tells each step, fails when one does, and leaves no process."""

from __future__ import annotations

import json
from pathlib import Path

from tarry.drills.registry import DRILLS
from tests.support.programs import TARRY, living_in, run


async def test_a_drill_tells_of_each_step_what_it_did_expected_and_found(tmp_path: Path) -> None:
    ended = await run(TARRY, "drill", "list-parked", "--short", "--json", cwd=tmp_path)

    assert ended.code == 0, ended.stderr
    facts = json.loads(ended.stdout)
    assert (facts["failed"], facts["short"], facts["matrix"]) == (0, True, [])
    assert facts["duplicates"] == {"unsafe": 0, "safe": 0, "keyed": 0, "reconciled": 0}
    (drill,) = facts["drills"]
    assert (drill["name"], drill["ok"], drill["problem"]) == ("list-parked", True, "")
    for step in drill["steps"]:
        assert all(step[part] for part in ("did", "expected", "found", "ok"))
        assert f"list-parked: {step['title']}" in ended.stderr, "progress, while it runs"
    assert living_in(tmp_path) == []


async def test_a_drill_never_touches_the_server_that_is_configured(tmp_path: Path) -> None:
    """Nothing listens there, and no setting of ours is allowed: neither is looked at."""
    ended = await run(
        TARRY, "drill", "list-parked", cwd=tmp_path, TEMPORAL_ADDRESS="127.0.0.1:1", TARRY_HEARTBEAT_TIMEOUT="never"
    )

    assert ended.code == 0, ended.stderr
    assert "did       temporal workflow list --query" in ended.stdout


async def test_the_list_names_every_drill_and_so_does_the_refusal_of_another_name(tmp_path: Path) -> None:
    listed = await run(TARRY, "drill", "--list", "--json", cwd=tmp_path)
    refused = await run(TARRY, "drill", "no-such", cwd=tmp_path)

    assert [drill["name"] for drill in json.loads(listed.stdout)["drills"]] == [drill.name for drill in DRILLS]
    assert refused.code == 2
    assert refused.stderr.startswith("tarry: there is no drill 'no-such': known are list-parked")
