"""What `tarry explain` says of a workflow of ours. Pure: the facts come in, words and JSON come out.

Names, questions and arguments come from outside: control characters never reach a terminal, and commands are quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from signals.tokens import SignalKey
from tarry.cli import render
from tarry.cli.turns import Turn, reset_command
from tarry.client import WorkItem
from tarry.core.waiting import ParkedNote, TaskView
from tarry.core.wake_command import signal_command, wake_command

EXAMPLE: dict[str, Any] = {}
"""The value in the commands: what fits is for the signal to say."""

_SHOWN_KEYS = 3
_SHOWN_RECEIPTS = 5
_LINE = 400
_HASHED = re.compile(r"#[0-9a-f]{12}")


@dataclass(frozen=True)
class Explanation:
    """What is known of it.

    Attributes:
        item: what lists say.
        closed: how it ended, in Temporal's word; empty while it is open.
        pending: what it waits for from workers, a sentence each.
        note: what a parked task says of itself, with no worker up.
        task: what a worker says of it; None when none answered, and of what is no task.
        parts: what is not over below it.
        turns: the newest turns of a run that is open.
    """

    item: WorkItem
    closed: str = ""
    pending: tuple[str, ...] = ()
    note: ParkedNote | None = None
    task: TaskView | None = None
    parts: tuple[WorkItem, ...] = ()
    turns: tuple[Turn, ...] = ()

    @property
    def keys(self) -> tuple[SignalKey, ...]:
        """The keys that wake it, as far as they are known exactly: lists hold a hash of a long one."""
        if self.task is not None and self.task.keys:
            return self.task.keys
        named = [key.partition("/") for key in self.note.keys] if self.note is not None else []
        return tuple(SignalKey(signal, key) for signal, _, key in named if not _HASHED.fullmatch(key))

    @property
    def wake_commands(self) -> list[str]:
        """The `temporal` command for each key."""
        return [wake_command(self.item.id, key, EXAMPLE) for key in self.keys]

    def why(self) -> str:
        """What it waits for or does, in a few words."""
        if self.closed:
            return f"is over: {self.closed}"
        if self.note is not None:
            return f"waits for {self._awaited()}"
        if self.item.state == "held":
            reason = f": {self.task.held}" if self.task is not None and self.task.held else ""
            return f"is held until it is retried{reason}"
        if self.item.unserved:
            return f"waits for a worker that serves {self.item.worker}: none is there"
        waiting = [part for part in self.parts if part.kind != "generation"]
        if waiting:
            return f"waits for {len(waiting)} of its calls"
        if self.item.kind == "conversation":
            return f"is {self.item.state}"
        return "asks the model, or is about to" if self.item.kind == "generation" else "runs"

    def _awaited(self) -> str:
        # Of the list's own labels, since they are short and printable.
        assert self.note is not None
        return " or ".join(
            [
                *self.note.keys,
                *([f"{self.note.more_keys} more keys"] if self.note.more_keys else []),
                *(["its children"] if self.item.state == "waiting" else []),
                *(["its deadline"] if self.note.until else []),
            ]
        )

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            **self.item.model_dump(mode="json"),
            "why": self.why(),
            "closed": self.closed,
            "pending": list(self.pending),
            "parked": self.note and self.note.model_dump(mode="json"),
            "task": self.task and self.task.model_dump(mode="json"),
            "wake_commands": self.wake_commands,
            "turns": [turn.model_dump(mode="json") for turn in self.turns],
            "work": [part.model_dump(mode="json") for part in self.parts],
        }


def drawn(explanation: Explanation, now: datetime) -> Text:
    """For a person at a terminal."""
    item = explanation.item
    name = render.plain(item.tool) or f"the {item.kind}"
    text = Text.assemble((name, "bold"), f" {render.plain(explanation.why())}")
    for label, value in _rows(explanation, now):
        text.append(f"\n  {label:13} ", "dim").append(render.cut(render.plain(value), _LINE))
    for headline, commands in _advice(explanation):
        text.append(f"\n\n{headline}")
        for command in commands:
            text.append(f"\n  {command}", "cyan")
    return text


def _rows(explanation: Explanation, now: datetime) -> Iterator[tuple[str, str]]:
    item, note = explanation.item, explanation.note
    yield "id", item.id
    if item.conversation_id not in ("", item.id):
        yield "conversation", item.conversation_id
    if item.parent is not None:
        yield "fork of", render.fork_point(item.parent)
    since = note.since if note is not None else item.since
    yield "since", f"{render.moment(since)} ({render.duration(now - since)})"
    if note is not None:
        yield (
            "until",
            f"{render.moment(note.until)} ({render.ahead(note.until, now)})" if note.until else "a signal comes",
        )
        if note.text:
            yield "asks", f"{note.text} (for {note.for_whom})" if note.for_whom else note.text
        yield "arguments", note.arguments
    for sentence in explanation.pending:
        yield "pending", sentence
    for receipt in explanation.task.receipts[-_SHOWN_RECEIPTS:] if explanation.task is not None else ():
        yield "received", render.receipt(receipt).plain


def _advice(explanation: Explanation) -> Iterator[tuple[str, list[str]]]:
    if explanation.closed:
        return
    item, keys = explanation.item, explanation.keys[:_SHOWN_KEYS]
    lacking = sorted({part.worker for part in (item, *explanation.parts) if part.unserved})
    if lacking:
        yield "Nobody runs their code until such a worker is there:", [f"tarry worker --serves {' '.join(lacking)}"]
    if keys:
        ours = [signal_command(item.id, key, EXAMPLE) for key in keys]
        # What cannot be shown as it is would be another key when pasted.
        shown = [command for command in ours if command.isprintable()]
        yield (
            "A value wakes it, here an empty object, with no worker up:",
            [*explanation.wake_commands[: len(keys)], *shown],
        )
    elif explanation.note is not None and explanation.note.keys:
        yield "Its keys are too long for lists: with a worker up this shows the command that wakes it.", []
    held = [part.id for part in (item, *explanation.parts) if part.state == "held"]
    if held:
        yield "Held work runs again with:", [f"tarry retry {shlex.quote(task_id)}" for task_id in held]
    if explanation.turns:
        yield (
            "A reset has the model asked again for a turn; calls that it makes again are taken over, not repeated:",
            [reset_command(item.id, turn) for turn in explanation.turns],
        )
    yield "Stop it with:", [f"tarry abort {shlex.quote(item.id)}"]
