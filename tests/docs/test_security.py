"""docs/security.md: every claim of the threat model names a test that exists, and each setting is explained."""

from __future__ import annotations

import re
from typing import Any

from tarry import Shown
from tarry.settings import PREFIX, Settings
from tests.docs.tables import TEST, functions_below, rows
from tests.support.programs import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
THREATS = PAGE.partition("\n## Threats\n")[2]
HEADER = ["who tries what", "what happens", "test"]


def claims() -> list[list[str]]:
    return [cells for cells in rows(THREATS) if cells != HEADER]


def test_every_claim_says_who_tries_what_what_happens_and_which_test_shows_it() -> None:
    assert claims() != []
    assert [cells for cells in claims() if len(cells) != len(HEADER) or not all(cells)] == []
    assert [shown for *_, shown in claims() if TEST.sub("", shown).strip(", ")] == []


def test_every_named_test_exists() -> None:
    named = {name for *_, shown in claims() for name in TEST.findall(shown)}

    assert sorted(named - functions_below("tests")) == []


def test_every_test_of_the_codec_stands_for_a_claim_or_a_rule_of_keys() -> None:
    named = {name for *_, shown in claims() for name in TEST.findall(shown)}
    of_the_codec = {name for name in functions_below("tests/workflow") if "/test_codec.py::" in name}

    assert sorted(of_the_codec - named) == []


def test_every_setting_of_the_codec_is_explained_and_there_are_no_others() -> None:
    told = {name for cells in rows(PAGE) for name in re.findall(rf"`({PREFIX}CODEC_\w+)`", cells[0])}

    assert told == {f"{PREFIX}{name.upper()}" for name in Settings.model_fields if name.startswith("codec_")}


def test_the_redactor_of_the_page_leaves_what_the_page_says() -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)  # the page's own code

    shown = names["app"].registry.redact(Shown("arguments", {"card": "4711", "amount": 3}, "pay"))

    assert shown == {"amount": 3}
