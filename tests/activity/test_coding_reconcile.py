"""A `write` whose worker was lost: the file itself tells whether it happened (spec §14.6)."""

from __future__ import annotations

from pathlib import Path

from tarry.coding import local, write
from tests.support.tool_bench import Bench


async def test_write_that_was_cut_off_after_its_effect_is_told_as_done(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("new")
    bench.environments = local(tmp_path)

    found = await bench.reconcile(write, arguments={"path": "f", "content": "new"})

    assert found.outcome is not None
    assert found.outcome.text == "Wrote 3 bytes to f."


async def test_write_that_was_cut_off_before_its_effect_is_not_known(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    bench.environments = local(tmp_path)

    found = await bench.reconcile(write, arguments={"path": "f", "content": "new"})

    assert found.outcome is None
