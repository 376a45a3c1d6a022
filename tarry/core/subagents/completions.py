"""How turns ended, in the mailbox of the direct parent, until a call has read it durably (spec §17.5).

Pure. A completion is unread, or reserved by one reading call, or read and gone. A call that reads again gets what it
got. Calls that wait are told once there is something for them, and ask.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen
from tarry.core.subagents.protocol import Completion, run_number

MAX_UNREAD = 512
"""Completions that one parent may have unread; further ones are undelivered."""
MAX_READ_BYTES = 256 * 1024
"""UTF-8 of the texts that one call reads; at least one completion is always given."""
MAX_KEPT = 256
"""Completions that were read and are kept for a call that asks again, over all calls."""
MAX_WAITERS = 1_024


class Unread(Frozen):
    """`reader`: the call that has it; empty: none."""

    completion: Completion
    reader: str = ""


class Waiter(Frozen):
    """A call of `parent_id` that waits for the child at `path`, or for any child."""

    task_id: str
    key: str
    parent_id: str
    path: str = ""


class Completions(BaseModel):
    """Boxes by the parent's conversation; who waits; and what the newest calls read."""

    boxes: dict[str, list[Unread]] = Field(default_factory=dict)
    waiters: dict[str, Waiter] = Field(default_factory=dict)
    was_read: dict[str, list[Completion]] = Field(default_factory=dict, description="by call, oldest first")

    def append(self, parent_id: str, completion: Completion) -> bool:
        """Put a completion into the box of the parent; False: there is no room, and it is not there."""
        box = self.boxes.setdefault(parent_id, [])
        if len(box) >= MAX_UNREAD:
            return False
        box.append(Unread(completion=completion))
        return True

    def reserve(self, parent_id: str, task_id: str, path: str) -> tuple[Completion, ...]:
        """What the call reads: what it had before, else the oldest that nobody has, at most 256 KiB."""
        if (before := self.was_read.get(task_id)) is not None:
            return tuple(before)
        box = self.boxes.get(parent_id, [])
        if not any(entry.reader == task_id for entry in box):
            for place in self._prefix(box, path):
                box[place] = box[place].model_copy(update={"reader": task_id})
        return tuple(entry.completion for entry in box if entry.reader == task_id)

    def _prefix(self, box: list[Unread], path: str) -> list[int]:
        places: list[int] = []
        room = MAX_READ_BYTES
        for place, entry in enumerate(box):
            if not _is_free(entry, path):
                continue
            room -= size(entry.completion)
            if places and room < 0:
                break
            places.append(place)
        return places

    def left(self, parent_id: str, path: str) -> int:
        """How many completions nobody has."""
        return sum(_is_free(entry, path) for entry in self.boxes.get(parent_id, ()))

    def held(self, parent_id: str, task_id: str, path: str) -> int:
        """How many completions other calls have, so far without a result."""
        return sum(
            entry.reader not in ("", task_id) and path in ("", entry.completion.path)
            for entry in self.boxes.get(parent_id, ())
        )

    def unread(self, parent_id: str) -> int:
        """How many completions are not read, reserved ones among them."""
        return len(self.boxes.get(parent_id, ()))

    def unread_paths(self, parent_id: str) -> set[str]:
        """The children of which a completion is not read."""
        return {entry.completion.path for entry in self.boxes.get(parent_id, ())}

    def readers(self, parent_id: str) -> list[str]:
        """The calls that have reserved something there, oldest first."""
        return list(dict.fromkeys(entry.reader for entry in self.boxes.get(parent_id, ()) if entry.reader))

    def read(self, task_id: str) -> list[str]:
        """What the call reserved is in its result; a repeat changes nothing. The parents whose it was."""
        self.waiters.pop(task_id, None)
        parents = [parent_id for parent_id in self.boxes if task_id in self.readers(parent_id)]
        for parent_id in parents:
            box = self.boxes[parent_id]
            self.boxes[parent_id] = [entry for entry in box if entry.reader != task_id]
            self._keep(task_id, [entry.completion for entry in box if entry.reader == task_id])
        return parents

    def _keep(self, task_id: str, completions: list[Completion]) -> None:
        self.was_read[task_id] = completions
        while sum(map(len, self.was_read.values())) > MAX_KEPT and len(self.was_read) > 1:
            del self.was_read[next(iter(self.was_read))]

    def give_back(self, task_id: str) -> list[str]:
        """The call is over without a result: what it reserved is unread again. The parents whose it is."""
        self.waiters.pop(task_id, None)
        parents = [parent_id for parent_id in self.boxes if task_id in self.readers(parent_id)]
        for parent_id in parents:
            self.boxes[parent_id] = [
                entry.model_copy(update={"reader": ""}) if entry.reader == task_id else entry
                for entry in self.boxes[parent_id]
            ]
        return parents

    def wait(self, waiter: Waiter) -> None:
        """A call waits; the newest key of a call counts."""
        self.waiters.pop(waiter.task_id, None)
        self.waiters[waiter.task_id] = waiter
        if len(self.waiters) > MAX_WAITERS:
            del self.waiters[next(iter(self.waiters))]

    def tell(self, parent_id: str) -> list[Waiter]:
        """The calls for which there is something now; they wait no more."""
        return self.release(parent_id, lambda path: self.left(parent_id, path) > 0)

    def release(self, parent_id: str, is_told: Callable[[str], bool]) -> list[Waiter]:
        """The calls of that conversation that wait for such a path, empty: any child; they wait no more."""
        told = [one for one in self.waiters.values() if one.parent_id == parent_id and is_told(one.path)]
        for waiter in told:
            del self.waiters[waiter.task_id]
        return told

    def leave(self, parent_id: str, run: int | None = None) -> None:
        """No call of that conversation waits any more; with `run`, none of that run or an earlier one."""
        self.waiters = {
            name: waiter
            for name, waiter in self.waiters.items()
            if waiter.parent_id != parent_id or (run is not None and run_number(name) > run)
        }


def _is_free(entry: Unread, path: str) -> bool:
    return not entry.reader and path in ("", entry.completion.path)


def size(completion: Completion) -> int:
    """UTF-8 bytes that a completion counts for among those that one call reads."""
    return completion.utf8_bytes or len(completion.text.encode("utf-8", "replace"))
