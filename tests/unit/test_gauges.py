"""How often gateways and supervisors look how work stands (spec §24.7)."""

from __future__ import annotations

import pytest

from workers.gauges import pause_after


@pytest.mark.parametrize(("took", "pause"), [(0.1, 10.0), (2.0, 18.0), (20.0, 60.0)])
def test_looks_take_a_tenth_of_the_time_and_are_never_so_rare_that_the_server_seems_away(
    took: float, pause: float
) -> None:
    assert pause_after(took) == pytest.approx(pause)
