"""docs/growing.md: what it says of search attributes is what workers ask for."""

from __future__ import annotations

import re
from collections import Counter

from tarry.core.attributes import ATTRIBUTES
from tests.docs.tables import rows
from tests.support.programs import ROOT

PAGE = (ROOT / "docs" / "growing.md").read_text()


def test_the_command_for_temporal_cloud_registers_every_search_attribute() -> None:
    named = re.findall(r"--search-attribute (\w+)=(\w+)", PAGE)

    assert named == [(one.name, one.type) for one in ATTRIBUTES]


def test_so_many_search_attributes_of_each_type_are_told_as_there_are() -> None:
    types = Counter(one.type for one in ATTRIBUTES)
    [(_, told)] = [cells for cells in rows(PAGE) if cells[0].startswith("40 keyword attributes")]

    assert told == f"ours are {types['Keyword']} and {types['KeywordList']}, and two dates"
    assert types["Datetime"] == 2
