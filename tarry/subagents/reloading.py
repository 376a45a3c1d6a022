"""Letting the files of this host count for a conversation from now on, and what that changes (spec §17.9)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tarry.client.errors import NoSuchAgents
from tarry.client.harness import Harness
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.subagents.discovery import Catalogue, load_catalogue
from tarry.subagents.files import config_dir


class BadFiles(ValueError):
    """Something of the files cannot be used. The text is one line, and nothing was reloaded."""


@dataclass(frozen=True)
class Changes:
    """What counts otherwise than before. `settings`: by name, as they were and as they are."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    settings: dict[str, tuple[object, object]]

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Changes:
        """From one snapshot to another."""
        old, new = _by_name(before), _by_name(after)
        was, now = _facts(before.settings), _facts(after.settings)
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name, one in new.items() if name in old and old[name] != one),
            settings={name: (was[name], value) for name, value in now.items() if was[name] != value},
        )

    @property
    def lines(self) -> list[str]:
        """For a person."""
        agents = (("added", self.added), ("removed", self.removed), ("changed", self.changed))
        lines = [f"{said}: {', '.join(names)}" for said, names in agents if names]
        lines += [f"{name}: {was} → {now}" for name, (was, now) in self.settings.items()]
        return lines or ["nothing has changed"]


@dataclass(frozen=True)
class Reloaded:
    """What counts now. `changes`: from what counted before; None: nothing did, the tree has begun with it."""

    catalogue: Catalogue
    changes: Changes | None

    @property
    def lines(self) -> list[str]:
        """For a person."""
        names = ", ".join(one.definition.name for one in self.catalogue.found) or "none: `tarry agents init`"
        said = self.changes.lines if self.changes is not None else ["the tree has begun with them"]
        return [f"agents: {names}", *said]


async def reload(harness: Harness, conversation_id: str) -> Reloaded:
    """Let the definitions and settings of this host count, as they are for the folder of the root conversation.

    Needs a worker. What executes goes on as it was begun; a tree that was not begun begins with them.

    Raises:
        BadFiles: something of them cannot be used; what counted before does still.
        NoSuchConversation, NoSuchAgents, ServerUnavailable: as `Harness.agents` and `AgentTree.reload`.
    """
    tree = await harness.agents(conversation_id)
    cwd = (await harness.conversation(tree.root).view()).agent.cwd
    catalogue = load_catalogue(Path(cwd) if cwd else None, config_dir(harness.settings))
    if catalogue.problems:
        first, *others = catalogue.problems
        more = f" (and {len(others)} more: `tarry agents definitions`)" if others else ""
        raise BadFiles(f"nothing was reloaded: {first}{more}")
    try:
        before = await tree.snapshot()
    except NoSuchAgents:
        before = None
    await tree.reload(catalogue.snapshot)
    return Reloaded(catalogue, None if before is None else Changes.between(before, catalogue.snapshot))


def _by_name(snapshot: Snapshot) -> dict[str, AgentDefinition]:
    return {one.name: one for one in snapshot.definitions}


def _facts(settings: SubagentSettings) -> dict[str, object]:
    return settings.model_dump(mode="json")
