"""Tables of pages whose last column names the tests that show a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.programs import ROOT

TEST = re.compile(r"`(tests/[^`]+)`")


def rows(page: str) -> Iterator[list[str]]:
    """The cells of each table row but the lines under headers."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and set("".join(cells)) != {"-"}:
            yield cells


def functions_below(folder: str) -> set[str]:
    """`file::function` of every test below a folder."""
    return {name for file in sorted((ROOT / folder).rglob("test_*.py")) for name in functions_of(file)}


def functions_of(file: Path) -> Iterator[str]:
    """`file::function` of every test in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{file.relative_to(ROOT)}::{node.name}"
