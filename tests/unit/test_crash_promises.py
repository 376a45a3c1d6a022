"""What is promised of a crash at each point is what the kept matrix holds."""

from __future__ import annotations

import json

import pytest

from tarry.drills.kit.cell import Cell, Policy
from tarry.drills.kit.score import POLICIES, duplicates
from tarry.drills.matrix.crash import POINTS, promised
from tests.support.programs import ROOT

KEPT = [Cell.model_validate(cell) for cell in json.loads((ROOT / "temporal-dev/drills/matrix.json").read_text())]


def test_kept_matrix_is_what_is_promised_at_every_point_under_every_policy() -> None:
    assert [promised(point, policy, 1) for point in POINTS for policy in POLICIES] == KEPT


@pytest.mark.parametrize("policy", ["unsafe", "keyed", "reconciled"])
def test_only_a_safe_call_without_a_key_may_have_its_effect_twice(policy: Policy) -> None:
    assert duplicates(KEPT)[policy] == 0
    assert duplicates(KEPT)["safe"] == sum(point.cuts == "after" for point in POINTS)


def test_a_result_that_the_model_read_always_had_its_effect() -> None:
    assert [cell for cell in KEPT if "Opened" in cell.read and cell.effects == 0] == []


def test_calls_of_a_cell_are_added_up() -> None:
    once, thrice = (promised(POINTS[6], "safe", calls) for calls in (1, 3))

    assert (thrice.runs, thrice.effects, thrice.duplicates) == (3 * once.runs, 3 * once.effects, 3 * once.duplicates)
    assert thrice.read == {"Opened": 3}
