"""docs/guarantees.md: every promise names a test that exists, and every drill stands for a promise."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.conftest import Demos
from tests.support.programs import ROOT

PROMISED, _, NOT_PROMISED = (ROOT / "docs" / "guarantees.md").read_text().partition("\n## What is not promised\n")
HEADER = ["what fails", "what happens", "test"]
TEST = re.compile(r"`(tests/[^`]+)`")


def rows(page: str) -> Iterator[list[str]]:
    """The cells of each table row but the lines under headers."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and set("".join(cells)) != {"-"}:
            yield cells


def promises() -> list[list[str]]:
    return [cells for cells in rows(PROMISED) if cells != HEADER]


def functions_below(folder: str) -> set[str]:
    """`file::function` of every test below a folder."""
    return {name for file in sorted((ROOT / folder).rglob("test_*.py")) for name in functions_of(file)}


def functions_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{file.relative_to(ROOT)}::{node.name}"


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
