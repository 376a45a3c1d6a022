"""Raw entries that somebody writes into a transcript: for people, for the model, or a head marker (spec §6.6).

Pure. A write starts no run. It waits in the inbox as inputs do and is placed at the next boundary.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self

from pydantic import Field, model_validator

from tarry.core.messages import Frozen
from tarry.core.transcript import (
    Draft,
    Position,
    Transcript,
    compaction_draft,
    note_draft,
    reset_draft,
    user_draft,
)

WriteKind = Literal["note", "user", "reset", "compaction"]
"""`note`: for people alone. `user`: the model reads it, with the next request. `reset`, `compaction`: head markers."""

STALE = -1
"""Stands for the index of an entry that was not made, since a newer head marker had been placed."""


class Write(Frozen):
    """Makes a submission a raw entry of this kind, whose text is the submission's content."""

    kind: WriteKind
    head: Position | None = Field(
        default=None, description="of a compaction: the place from which on entries are still context"
    )

    @model_validator(mode="after")
    def _check_head(self) -> Self:
        if (self.kind == "compaction") != (self.head is not None):
            raise ValueError("a compaction needs the place `head` from which on entries stay; other kinds have none")
        if self.head is not None and self.head.index < 0:  # no request could be made of a context from there on
            raise ValueError("`head` counts the entries before it: it is 0 or more")
        return self


def place_write(
    transcript: Transcript, write: Write, text: str, at: datetime, run: int, before: Position | None = None
) -> int:
    """Append the entry and return its index, or `STALE`.

    A compaction is stale when the place it names is older than the one of the newest head marker: that of the
    transcript, else `before`. A reset names its own place and never is.
    """
    draft = _draft(transcript, write, text, at, run, transcript.context_start or before)
    return STALE if draft is None else transcript.append(draft).index


def _draft(
    transcript: Transcript, write: Write, text: str, at: datetime, run: int, newest: Position | None
) -> Draft | None:
    if write.head is not None:
        is_older = newest is not None and write.head.index < newest.index
        is_there = write.head.index <= transcript.end.index
        return None if is_older or not is_there else compaction_draft(text, at, run, write.head)
    if write.kind == "reset":
        return reset_draft(at, run, transcript.end, text)
    return note_draft(text, at, run) if write.kind == "note" else user_draft(text, at, run)
