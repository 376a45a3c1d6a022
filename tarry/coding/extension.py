"""The extension that gives an agent its coding tools."""

from __future__ import annotations

from collections.abc import Sequence

from tarry.app import Extension
from tarry.coding.finding import find, grep, ls
from tarry.coding.reading import read
from tarry.coding.shell import bash
from tarry.coding.writing import edit, write
from tarry.environment import EnvironmentFactory
from tarry.tools import Tool

TOOLS = (read, write, edit, bash, grep, find, ls)


def coding(environment: EnvironmentFactory, tools: Sequence[Tool] = TOOLS) -> Extension:
    """The extension `coding`: these tools, and the environment that `api.env` gives to every tool of the application.

    Args:
        environment: such as `local("/srv/project")` or `sandboxed("/srv/project")`, or a function of a `Place`.
        tools: fewer of them, for an agent that may only look: `[read, grep, find, ls]`.
    """
    return Extension("coding", tools, environment=environment)
