"""Uses a coding tool as a model would, without a worker: arguments checked, its result as the model reads it."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tarry.coding.local import LocalDirectory
from tarry.coding.sandbox import SandboxedDirectory, _bubblewrap
from tarry.core.arguments import validate
from tarry.core.protocol import ToolOutcome
from tarry.core.results import Diagnostic, encode_content, outcome_from, tool_error
from tarry.core.text import bound_text
from tarry.environment import Environment, NoEnvironment
from tarry.tools import Tool, ToolResult


class Recorder:
    """What a coding tool uses of its `api`: an environment, and a memory of what it said."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.published: list[str] = []
        self.remarks: list[Diagnostic] = []
        self.stopped = False

    @property
    def env(self) -> Environment:
        return self._env

    @property
    def is_cancelled(self) -> bool:
        return self.stopped

    def output(self, text: str) -> None:
        self.published.append(text)

    def diagnostic(self, message: str, *, severity: Any = "info", code: str = "") -> None:
        self.remarks.append(Diagnostic(severity=severity, message=message, code=code))


def use(tool: Tool, env: Environment, **arguments: Any) -> ToolOutcome:
    """What the model would read of a call."""
    return use_with(Recorder(env), tool, **arguments)


def use_with(api: Recorder, tool: Tool, **arguments: Any) -> ToolOutcome:
    """`use`, with an `api` that can be looked at, or stopped."""
    typed = validate(arguments, tool.parameters)
    try:
        value = tool.function(**tool.call_arguments(typed), api=api)
    except Exception as error:
        return tool_error(tool.name, error, "".join(api.published), api.remarks)
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    content = bound_text(encode_content(result.content), keep=result.keep)
    return outcome_from(content, is_error=result.is_error, details=result.details, diagnostics=api.remarks)


def is_sandbox_here() -> bool:
    """Whether this host has a bubblewrap that works."""
    try:
        return bool(_bubblewrap())
    except NoEnvironment:
        return False


needs_sandbox = pytest.mark.skipif(not is_sandbox_here(), reason="no working bubblewrap on this host")

EVERY: list[Any] = [
    pytest.param(LocalDirectory, id="local"),
    pytest.param(SandboxedDirectory, id="sandboxed", marks=needs_sandbox),
]
"""Both environments of ours."""

Make = Callable[..., Environment]


TREE = "echo begun; sleep {tag} & (setsid sleep {tag} &) ; bash -c 'trap \"\" TERM; sleep {tag}; :'; :"
"""Children, one of them an orphan in a session of its own, one deaf to SIGTERM."""


def tag() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"9{uuid.uuid4().int % 10**9:09d}"


def tagged(tag: str) -> list[int]:
    """The processes whose command line holds `tag`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if tag.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
    return found


@contextlib.contextmanager
def none_left(tag: str) -> Iterator[None]:
    """Whatever the test does, no process with `tag` outlives it."""
    try:
        yield
    finally:
        for process in tagged(tag):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
