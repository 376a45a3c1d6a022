"""Every place and every park at which work can rest has a kept history that rests there (spec §22.4)."""

from __future__ import annotations

import pytest
from temporalio.worker import Replayer

from tests.replay import kept
from tests.replay.places import PARKS, PLACES, WRAPPERS
from tests.replay.resting import Watching, parks, waiting_functions
from workers.worker import WORKFLOWS


@pytest.fixture(scope="module")
async def rested() -> dict[str, set[str]]:
    """The places at which kept histories rest, by workflow type."""
    watching = Watching()
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=watching, data_converter=kept.converter())
    for name in kept.names():
        for history in kept.read(name):
            await replayer.replay_workflow(history)
    return watching.rests


async def test_every_type_of_workflow_has_kept_histories(rested: dict[str, set[str]]) -> None:
    assert len(rested) == len(WORKFLOWS)


async def test_kept_histories_rest_at_every_place_of_the_table_and_at_no_other(rested: dict[str, set[str]]) -> None:
    found = {place for places in rested.values() for place in places}

    assert sorted(found - PLACES.keys()) == [], "say in places.py what it is that rests there"
    assert sorted(PLACES.keys() - found) == [], "record a history that rests there: python -m tests.replay.record"


def test_every_function_that_waits_is_a_place_of_the_table() -> None:
    places = {place.partition(" > ")[0] for place in PLACES}

    assert sorted(waiting_functions() - places - WRAPPERS) == [], "say in places.py what waits there, and record it"


def test_kept_histories_hold_every_kind_of_park_and_no_other() -> None:
    found = {park for name in kept.names() for history in kept.read(name) for park in parks(history)}

    assert sorted(found - PARKS.keys()) == [], "say in places.py what it is"
    assert sorted(PARKS.keys() - found) == [], "record one: python -m tests.replay.record"
