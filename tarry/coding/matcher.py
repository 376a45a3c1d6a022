"""Decides what a search shows: patterns that a model or a repository wrote are matched here, and only here.

A pattern can take for ever, and holds its interpreter meanwhile; so this is a process of its own, which a search can
kill. It sees no file but those that it is sent. It runs as a script, so it imports nothing of ours.

One JSON object a line comes in, one goes out:

    {"regex", "ignore_case", "literal", "glob", "below", "ignored"}  what is searched for; {} or {"error"}
    {"enter", "ignores", "entries"}   a directory, its .gitignore, its [name, kind]; {"shown", "matched", "ignored"}
    {"search", "size", "most"} and that many bytes                  a file; {"lines"} as [number, text], or {"binary"}
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, BinaryIO

from pathspec import GitIgnoreSpec

PROBE_BYTES = 8 * 1024
MAX_LINE = 500


class Matcher:
    """One search. Directories are entered from the root on, each before those below it."""

    def __init__(self) -> None:
        self._regex: re.Pattern[str] | None = None
        self._glob: re.Pattern[str] | None = None
        self._below = ""
        self._ignored = False
        self._specs: dict[str, list[tuple[str, GitIgnoreSpec]]] = {}

    def answer(self, request: dict[str, Any], body: BinaryIO) -> dict[str, Any]:
        """What is told about a request."""
        if "enter" in request:
            return self._enter(request["enter"], request["ignores"], request["entries"])
        if "search" in request:
            return self._search(body.read(request["size"]), request["most"])
        return self._begin(request)

    def _begin(self, request: dict[str, Any]) -> dict[str, Any]:
        self._ignored = request["ignored"]
        self._below = "" if request["below"] == "." else f"{request['below']}/"
        try:
            if request["regex"] is not None:
                text = re.escape(request["regex"]) if request["literal"] else request["regex"]
                self._regex = re.compile(text, re.IGNORECASE if request["ignore_case"] else 0)
            self._glob = glob_regex(request["glob"]) if request["glob"] is not None else None
        except (re.error, OverflowError, RecursionError) as error:
            return {"error": str(error)}
        return {}

    def _enter(self, directory: str, ignores: str, entries: list[list[str]]) -> dict[str, Any]:
        above = self._specs.get(directory.rpartition("/")[0], []) if directory else []
        # From the root on: of the files that say something of a path, the one nearest to it counts.
        self._specs[directory] = [*above, (f"{directory}/" if directory else "", _spec(ignores))]
        shown, matched, left_out = [], [], 0
        for name, kind in entries:
            path = f"{directory}/{name}" if directory else name
            if not self._ignored and self._is_ignored(directory, path, kind):
                left_out += 1
                continue
            shown.append([name, kind])
            if self._glob is None or self._glob.fullmatch(path.removeprefix(self._below)):
                matched.append(name)
        return {"shown": shown, "matched": matched, "ignored": left_out}

    def _is_ignored(self, directory: str, path: str, kind: str) -> bool:
        asked = f"{path}/" if kind == "directory" else path
        for place, spec in reversed(self._specs[directory]):
            verdict = spec.check_file(asked.removeprefix(place)).include
            if verdict is not None:
                return verdict
        return False

    def _search(self, data: bytes, most: int) -> dict[str, Any]:
        assert self._regex is not None
        if b"\0" in data[:PROBE_BYTES]:
            return {"binary": True}
        found: list[list[Any]] = []
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
            text = line.removesuffix("\r")
            if self._regex.search(text):
                found.append([number, text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"])
                if len(found) == most:
                    break
        return {"lines": found}


def _spec(ignores: str) -> GitIgnoreSpec:
    """The patterns of a .gitignore; lines that are none are skipped."""
    lines: list[str] = []
    for line in ignores.splitlines():
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            continue
        lines.append(line)
    return GitIgnoreSpec.from_lines(lines)


def glob_regex(glob: str) -> re.Pattern[str]:
    """What a glob matches: `*`, `?`, `[a-z]` in a name, `**` over directories, `{a,b}`; without `/` a name anywhere.

    Raises:
        re.error: a set that is none.
    """
    whole = glob.removeprefix("/") if "/" in glob.rstrip("/") else f"**/{glob}"
    made, depth = "", 0
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?+\]?+[^\]]*\]|.", whole.rstrip("/"), re.DOTALL):
        match part:
            case "**/":
                made += "(?:[^/]+/)*"
            case "**":
                made += ".*"
            case "*":
                made += "[^/]*"
            case "?":
                made += "[^/]"
            case "{":
                made, depth = f"{made}(?:", depth + 1
            case "," if depth:
                made += "|"
            case "}" if depth:
                made, depth = f"{made})", depth - 1
            case _ if len(part) > 1:
                inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
                made += f"[{f'^/{inside[1:]}' if inside[0] in '!^' else inside}]"
            case _:
                made += re.escape(part)
    return re.compile(made, re.DOTALL)


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the source ends."""
    matcher = Matcher()
    while line := source.readline():
        sink.write(json.dumps(matcher.answer(json.loads(line), source)).encode() + b"\n")
        sink.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
