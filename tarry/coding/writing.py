"""The tools `write` and `edit`. In one process one change of a file comes after the other (spec §14.6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated
from weakref import WeakValueDictionary

from pydantic import Field

from tarry.api import ToolApi
from tarry.coding.edits import Edit, EditArguments, EditError, apply_edits, difference
from tarry.coding.results import refused
from tarry.environment import Environment
from tarry.tools import ToolResult, tool

MAX_EDITED_BYTES = 16 * 1024 * 1024

_guard = threading.Lock()
_locks: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()


def _happened(path: str, content: str, api: ToolApi) -> str | None:
    """Whether a write that was cut off took effect: a file is replaced whole, so it has the content or it did not."""
    data = content.encode()
    try:
        if api.env.stat(path).size != len(data):
            return None
        with api.env.open(path) as file:
            return _wrote(path, data) if file.read() == data else None
    except OSError:
        return None


@tool(reconcile=_happened)
def write(
    path: Annotated[str, Field(description="The file, relative to the working directory or absolute")],
    content: Annotated[str, Field(description="The whole content of the file")],
    api: ToolApi,
) -> str:
    """Make a file, with the directories above it, or replace the whole content of one. Use edit for small changes."""
    env, data = api.env, content.encode()
    with _alone(env, path):
        env.write(path, data)
    return _wrote(path, data)


def _edit(path: str, edits: list[Edit], api: ToolApi) -> ToolResult:
    """Replace pieces of a text file. Every `oldText` must stand in the file exactly once, whitespace included.

    Make all changes of one file in one call: every edit is matched against the file as it is now, none may overlap.
    """
    env = api.env
    with _alone(env, path):
        info = env.stat(path)
        if info.size > MAX_EDITED_BYTES:
            return refused(api, "too_large", f"{path} has {info.size} bytes; {MAX_EDITED_BYTES} can be edited.")
        with env.open(path) as file:
            data = file.read(MAX_EDITED_BYTES + 1)
        try:
            before = data.decode()
            after = apply_edits(before, edits)
        except UnicodeDecodeError as error:
            return refused(api, "not_utf8", f"{path} is not UTF-8 text: byte {error.start}. Use bash to change it.")
        except EditError as error:
            return refused(api, "edit_failed", f"{path} was not changed. {error}")
        env.write(path, after.encode())
    made = "1 piece" if len(edits) == 1 else f"{len(edits)} pieces"
    return ToolResult(f"Replaced {made} of {path}.", details=difference(path, before, after))


edit = replace(tool(name="edit")(_edit), parameters=EditArguments)


@contextmanager
def _alone(env: Environment, path: str) -> Iterator[None]:
    key = (env.id, env.canonical(path))
    with _guard:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        yield


def _wrote(path: str, data: bytes) -> str:
    return f"Wrote {len(data)} bytes to {path}."
