"""docs/drills.md and the README: what they say of the matrix is what is kept, and that is what a test has found."""

from __future__ import annotations

import json

from tarry.drills.kit.cell import Cell
from tarry.drills.kit.score import POLICIES
from tarry.drills.matrix.crash import POINTS, Cut
from tests.docs.tables import rows
from tests.support.programs import ROOT

KEPT = [Cell.model_validate(cell) for cell in json.loads((ROOT / "temporal-dev/drills/matrix.json").read_text())]
CUTS: tuple[Cut, ...] = ("nothing", "before", "after")


def row_of(point: str) -> list[str]:
    """Effects and what was read, under each policy."""
    cells = {cell.policy: cell for cell in KEPT if cell.point == point}
    return [f"{cells[policy].effects} {' and '.join(cells[policy].read)}" for policy in POLICIES]


def test_matrix_of_the_page_is_the_kept_one() -> None:
    header, *told = rows((ROOT / "docs" / "drills.md").read_text())

    assert header[0] == "the worker was killed …"
    assert told == [[point.name, *row_of(point.name)] for point in POINTS]


def test_the_readmes_rows_hold_for_every_point_that_they_stand_for() -> None:
    below_the_header = (ROOT / "README.md").read_text().partition("| killed with SIGKILL |")[2]
    told = list(rows(below_the_header))

    for cut, (_, *cells) in zip(CUTS, told[: len(CUTS)], strict=True):
        assert {point.name: row_of(point.name) for point in POINTS if point.cuts == cut} == {
            point.name: cells for point in POINTS if point.cuts == cut
        }
