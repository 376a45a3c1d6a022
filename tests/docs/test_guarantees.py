"""docs/guarantees.md: every promise names a test that exists, and every drill stands for a promise."""

from __future__ import annotations

import json

from tests.docs.conftest import Demos
from tests.docs.tables import TEST, functions_below, rows
from tests.support.programs import ROOT

PROMISED, _, NOT_PROMISED = (ROOT / "docs" / "guarantees.md").read_text().partition("\n## What is not promised\n")
HEADER = ["what fails", "what happens", "test"]


def promises() -> list[list[str]]:
    return [cells for cells in rows(PROMISED) if cells != HEADER]


def test_every_promise_says_what_fails_what_happens_and_which_test_shows_it() -> None:
    assert promises() != []
    assert [cells for cells in promises() if len(cells) != len(HEADER) or not all(cells)] == []
    assert [shown for *_, shown in promises() if TEST.sub("", shown).strip(", ")] == []


def test_every_named_test_exists() -> None:
    named = {name for *_, shown in promises() for name in TEST.findall(shown)}

    assert sorted(named - functions_below("tests")) == []


def test_every_drill_stands_for_a_promise() -> None:
    named = {name for *_, shown in promises() for name in TEST.findall(shown)}

    assert sorted(functions_below("tests/drills") - named) == []


def test_table_of_declarations_is_what_the_demo_finds(demos: Demos) -> None:
    header, *told = rows(NOT_PROMISED)
    found = json.loads(demos.printed.ended.stdout)["policies"].values()

    assert header == ["declaration", "tickets", "runs", "what the model reads"]
    assert [cells[1:] for cells in told] == [
        [str(facts["tickets"]), str(facts["ledger"]["open_ticket"]), f"`{facts['result']}`"] for facts in found
    ]
