"""The tools `grep`, `find` and `ls`. They show paths as their own `path` begins them (spec §14.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from tarry.api import ToolApi
from tarry.coding import searching
from tarry.coding.results import refused
from tarry.coding.searching import Search, SearchError, Wanted
from tarry.environment import Environment
from tarry.tools import ToolResult, tool

Path = Annotated[str, Field(description="Where to look, relative to the working directory or absolute")]
Ignored = Annotated[bool, Field(description="Whether to show what .gitignore leaves out, too")]
Limit = Annotated[int, Field(ge=1, le=10_000, description="The most to show")]
Glob = Annotated[
    str,
    Field(
        description="Such as *.py, src/**/*.ts or *.{js,ts}, from `path` on; without a slash it matches names anywhere"
    ),
]


@tool(replay="safe")
def grep(
    pattern: Annotated[str, Field(description="A regular expression, as Python's re has them; it is matched by line")],
    api: ToolApi,
    path: Path = ".",
    glob: Annotated[Glob | None, Field(description="Search only in files that this glob matches")] = None,
    ignore_case: bool = False,
    literal: Annotated[bool, Field(description="Take the pattern as plain text")] = False,
    ignored: Ignored = False,
    limit: Limit = 100,
) -> str | ToolResult:
    """Search the lines of text files. Answers with `path:line: text`; what .gitignore leaves out is not searched."""
    below = api.env.canonical(path)
    wanted = Wanted(regex=pattern, glob=glob, below=below, ignore_case=ignore_case, literal=literal, ignored=ignored)
    found: list[str] = []
    try:
        with Search(api.env, wanted, lambda: api.is_cancelled) as search:
            search.begin()
            for file, shown in _files(search, path):
                lines = search.lines(file, limit + 1 - len(found))
                found += [f"{shown}:{number}: {text}" for number, text in lines]
                if len(found) > limit:
                    break
            _remark(api, search, len(found), limit)
    except SearchError as error:
        return refused(api, "search_failed", f"The search was not finished: {error}.", "\n".join(found[:limit]))
    return "\n".join(found[:limit])


@tool(replay="safe")
def find(
    glob: Glob, api: ToolApi, path: Path = ".", ignored: Ignored = False, limit: Limit = 1_000
) -> str | ToolResult:
    """Find files and directories by name, one path a line, directories with a slash at the end."""
    api.env.list(path)
    start = api.env.canonical(path)
    found: list[str] = []
    try:
        with Search(api.env, Wanted(glob=glob, below=start, ignored=ignored), lambda: api.is_cancelled) as search:
            search.begin()
            for below, kind, matches in search.walk(start):
                if matches:
                    found.append(_shown(api.env, path, below) + ("/" if kind == "directory" else ""))
                if len(found) > limit:
                    break
            _remark(api, search, len(found), limit)
    except SearchError as error:
        return refused(api, "search_failed", f"The search was not finished: {error}.", "\n".join(found[:limit]))
    return "\n".join(found[:limit])


@tool(replay="safe")
def ls(api: ToolApi, path: Path = ".", ignored: Ignored = False, limit: Limit = 500) -> str | ToolResult:
    """List a directory, one name a line, directories with a slash at the end."""
    env = api.env
    env.list(path)
    with Search(env, Wanted(ignored=ignored), lambda: api.is_cancelled) as search:
        search.begin()
        names = [
            below.rpartition("/")[2] + ("/" if kind == "directory" else "@" if kind == "link" else "")
            for below, kind, _ in search.entries(env.canonical(path))
        ]
        _remark(api, search, len(names), limit)
    return "\n".join(names[:limit])


def _files(search: Search, path: str) -> Iterator[tuple[str, str]]:
    """The files to search, by canonical path, and as they are shown."""
    start = search.env.canonical(path)
    if search.env.stat(path).kind != "directory":
        yield start, path
        return
    for below, kind, matches in search.walk(start):
        if kind == "file" and matches:
            yield below, _shown(search.env, path, below)


def _shown(env: Environment, path: str, below: str) -> str:
    """What is found below `path`, so that it can be given to another tool."""
    start = env.canonical(path)
    rest = below if start == "." else below.removeprefix(f"{start}/")
    return rest if path in ("", ".", "./") else f"{path.rstrip('/')}/{rest}"


def _remark(api: ToolApi, search: Search, found: int, limit: int) -> None:
    if found > limit:
        api.diagnostic(f"The first {limit} are shown; there are more. Narrow it down, or set limit.", code="more")
    if not found:
        api.diagnostic("Nothing was found.", code="nothing_found")
    if search.not_searched:
        over = (
            f"Files not searched, since unreadable or over {searching.MAX_SEARCHED_BYTES} bytes: {search.not_searched}."
        )
        api.diagnostic(f"{over} Use bash for them.", severity="warn", code="not_searched")
    if search.left_out:
        left_out = f"{search.left_out} ignored entries are left out; ignored=true shows them."
        api.diagnostic(left_out, code="ignored")
