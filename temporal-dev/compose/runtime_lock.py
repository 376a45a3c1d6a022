"""The part of requirements.lock that a deployment needs: `runtime_lock.py [EXTRA …]`, in the folder of both files.

The lock holds every extra, the tools of development among them, and says below each package what asks for it: that is
followed from the project's own dependencies and those of the extras that are named. Standard library only.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PROJECT = "tarry (pyproject.toml)"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BLOCK = re.compile(r"^(?=[a-z0-9])", re.MULTILINE)
_VIA = re.compile(r"^    #(?: via)? +(?:via )?(\S.*)$", re.MULTILINE)


def runtime(lock: str, pyproject: str, extras: Iterable[str]) -> str:
    """The lines of `lock` for the project of `pyproject` with these extras.

    Raises:
        KeyError: there is no such extra.
    """
    blocks = {_name(block): block for block in _BLOCK.split(lock) if block.strip()}
    askers = {name: {_name(asker) for asker in _askers(block)} for name, block in blocks.items()}
    needed, found = set(_declared(pyproject, extras)), set[str]()
    while needed:
        found |= needed
        needed = {name for name, wanted_by in askers.items() if wanted_by & found} - found
    return "".join(block for name, block in blocks.items() if name in found)


def _askers(block: str) -> Iterator[str]:
    return (asker for asker in _VIA.findall(block) if asker != PROJECT)


def _declared(pyproject: str, extras: Iterable[str]) -> Iterator[str]:
    project = tomllib.loads(pyproject)["project"]
    declared = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    return (_name(one) for one in declared)


def _name(text: str) -> str:
    found = _NAME.match(text)
    assert found is not None, f"no package is named by {text[:40]!r}"
    return found.group().lower()


if __name__ == "__main__":
    print(runtime(Path("requirements.lock").read_text(), Path("pyproject.toml").read_text(), sys.argv[1:]), end="")
