"""Where agents stand: paths under `/root`, how they are named and how they are addressed (spec §17.1, §17.2).

Pure. A path belongs to its agent for ever; all that is asked for at once is judged one by one, so no two get one.
"""

from __future__ import annotations

import re
from itertools import count

from pydantic import BaseModel, Field

from tarry.core.subagents.refusing import Refused

ROOT = "/root"
MAX_NAME = 64
MAX_REFERENCE = 4_096
"""Characters of a reference; no path is so long."""
UNNAMED = "agent"
"""The name of an agent whose description has no letter or digit of a name."""

_NAME = re.compile(rf"[a-z0-9_-]{{1,{MAX_NAME}}}")


class Paths(BaseModel):
    """Every path that was ever given, and the agent that has it."""

    agents: dict[str, str] = Field(default_factory=dict, description="path to agent id")

    def name(self, parent: str, task_name: str | None, description: str) -> str:
        """The path of a new child of `parent`: by its name, or one made of its description that is free.

        Raises:
            Refused: `bad_name`; or `name_taken`, also by an agent that has ended long ago.
        """
        if task_name is None:
            return f"{parent}/{self._free(parent, slug(description))}"
        if _NAME.fullmatch(task_name) is None:
            raise Refused(
                "bad_name",
                f"task_name {task_name[:80]!r} is no name: take 1 to {MAX_NAME} of the characters a-z, 0-9, - and _",
            )
        if (path := f"{parent}/{task_name}") in self.agents:
            raise Refused("name_taken", f"{path} is there, and names are never given again: take another task_name")
        return path

    def _free(self, parent: str, name: str) -> str:
        if f"{parent}/{name}" not in self.agents:
            return name
        suffixes = (f"-{number}" for number in count(2))
        names = (name[: MAX_NAME - len(suffix)] + suffix for suffix in suffixes)
        return next(one for one in names if f"{parent}/{one}" not in self.agents)

    def reserve(self, path: str, agent_id: str) -> None:
        """Give a path that `name` made."""
        self.agents[path] = agent_id

    def find(self, reference: str, base: str) -> str:
        """The path that a reference means to the agent at `base`: an agent id, or a path, absolute or relative.

        Raises:
            Refused: `unknown_target`: it leads out of `/root`, or nothing is there.
        """
        if reference in self.agents.values():
            return next(path for path, agent_id in self.agents.items() if agent_id == reference)
        path = absolute(reference, base)
        if path != ROOT and path not in self.agents:
            raise Refused("unknown_target", f"there is no agent {path}: list_agents shows what there is")
        return path


def absolute(reference: str, base: str) -> str:
    """A path without `.` and `..`; `reference` may be relative to `base`.

    Raises:
        Refused: it is no path, or leads out of `/root`.
    """
    shown = repr(reference[:80])
    if not reference or len(reference) > MAX_REFERENCE:
        raise Refused("unknown_target", f"{shown} is no path: give one like /root/review, or an agent id")
    steps = reference.split("/")
    if reference.startswith("/"):
        base, steps = "", steps[1:]
    parts = base.split("/")[1:]
    for step in steps:
        if step == "..":
            parts = parts[:-1]
        elif step not in ("", "."):
            parts.append(step)
        if parts[:1] != ["root"]:
            raise Refused("unknown_target", f"{shown} leads out of {ROOT}")
    if any(_NAME.fullmatch(part) is None for part in parts):
        raise Refused("unknown_target", f"{shown} is no path: its parts have only a-z, 0-9, - and _")
    return "/" + "/".join(parts)


def slug(description: str) -> str:
    """A name made of a description."""
    name = re.sub(r"[^a-z0-9_]+", "-", description.lower())
    return name[:MAX_NAME].strip("-") or UNNAMED


def depth(path: str) -> int:
    """How deep a path is; `/root` is at 0."""
    return path.count("/") - 1


def is_below(path: str, above: str) -> bool:
    """Whether an agent is a descendant of another one."""
    return path.startswith(f"{above}/")
