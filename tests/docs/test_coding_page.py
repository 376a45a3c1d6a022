"""docs/coding.md: its code runs."""

from __future__ import annotations

import re

import pytest

from tests.support.programs import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "coding.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_of_the_page_runs(number: int) -> None:
    exec(compile(BLOCKS[number], f"coding.md, block {number}", "exec"), {})


def test_page_shows_an_environment_for_each_conversation_and_servers() -> None:
    assert len(BLOCKS) == 3
