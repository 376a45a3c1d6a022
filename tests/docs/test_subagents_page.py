"""docs/subagents.md: its code runs, and its tables name what there is."""

from __future__ import annotations

import re

import pytest

from tarry.subagents import TOOLS
from tests.support.programs import ROOT

PAGE = (ROOT / "docs" / "subagents.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_of_the_page_runs(number: int) -> None:
    exec(compile(BLOCKS[number], f"subagents.md, block {number}", "exec"), {})


def test_every_tool_is_shown_with_all_its_parameters() -> None:
    shown = dict(re.findall(r"^\| `(\w+)\(([\w, ]*)\)` \|", PAGE, re.MULTILINE))

    assert {name: parameters.split(", ") if parameters else [] for name, parameters in shown.items()} == {
        tool.name: list(tool.schema().get("properties", {})) for tool in TOOLS
    }
