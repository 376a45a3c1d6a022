"""Which hooks count now, of all that the workers of one task queue have or had, and who must be asked anew (spec §5.3).

Pure. A fingerprint stands for the hooks of an application and their versions. What came last counts: a fingerprint that
was published, or that of a build of workers when it was made current. As long as there was neither, the one that a
worker announced last for the first time: an old worker that starts again brings nothing back. After a change every
call that waits before its intent, and was asked under another fingerprint, is told. A pass that was under way meanwhile
parks later, so calls are looked for again after the longest time that a pass may take, and again as long as some are
found: then workers with other hooks are still up.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, Field

from tarry.core.messages import Frozen

REGISTRY = "tarry.registry"
PUBLISH = "tarry.publish"
"""Plain signal: the fingerprint that counts from now on."""
ANNOUNCE = "tarry.announce-hooks"
"""Plain signal: a worker with this fingerprint is up."""
MADE_CURRENT = "tarry.build-made-current"
"""Plain signal: the work of the queue goes to a build with this fingerprint, and since when (`MadeCurrent`)."""
CURRENT = "tarry.current-hooks"
"""Query: the fingerprint that counts."""
SWEEP = "tarry.sweep"

# All of them decide on commands: change them only behind `workflow.patched`.
SETTLING = timedelta(seconds=90)
"""A pass takes 70 s at most, or is tried again under the hooks of then; the rest is for lists that are behind."""
MAX_PAUSE = timedelta(hours=1)
MAX_KNOWN = 500
"""Fingerprints that are remembered, the newest."""
MAX_LENGTH = 200


def registry_id(task_queue: str) -> str:
    """The workflow that knows what counts on a task queue."""
    return f"tarry-registry/{task_queue}"


class RegistryState(BaseModel):
    """What is known. `sweep_at`: when calls are to be looked for, None while nothing has changed."""

    current: str = ""
    is_published: bool = False
    counts_since: datetime | None = Field(
        default=None, description="when the last one was published, or its build made current; None: before this field"
    )
    known: list[str] = Field(default_factory=list)
    sweep_at: datetime | None = None
    is_followed: bool = Field(default=False, description="another look follows, whatever this one finds")
    pause: timedelta = SETTLING

    def announce(self, fingerprint: str, now: datetime) -> None:
        """A worker is up; its hooks count when they are new and none were ever published."""
        if fingerprint not in self.known:
            self._know(fingerprint)
            if not self.is_published:
                self._change(fingerprint, now)

    def publish(self, fingerprint: str, now: datetime) -> None:
        """These count from now on, whatever workers announce."""
        self._know(fingerprint)
        self._count_from(fingerprint, now, now)

    def made_current(self, fingerprint: str, since: datetime, now: datetime) -> None:
        """A build with these was made current then, now at the latest. Each worker of it tells; the later one stays."""
        since = min(since, now)
        self._know(fingerprint)
        if self.counts_since is None or since > self.counts_since:
            self._count_from(fingerprint, since, now)

    def swept(self, fingerprint: str, now: datetime, *, found: bool) -> None:
        """All calls were looked for that had to be told of `fingerprint`; whether there were any."""
        if fingerprint != self.current:
            return
        if not found and not self.is_followed:
            self.sweep_at = None
            return
        self.sweep_at, self.is_followed = now + self.pause, False
        self.pause = min(2 * self.pause, MAX_PAUSE)

    def _know(self, fingerprint: str) -> None:
        if fingerprint not in self.known:
            self.known = [*self.known, fingerprint][-MAX_KNOWN:]

    def _count_from(self, fingerprint: str, since: datetime, now: datetime) -> None:
        self.is_published, self.counts_since = True, since
        self._change(fingerprint, now)

    def _change(self, fingerprint: str, now: datetime) -> None:
        if fingerprint == self.current:
            return
        # Where nothing counted before, no pass can be under way that asks others.
        self.is_followed = bool(self.current)
        self.current, self.sweep_at, self.pause = fingerprint, now, SETTLING


class RegistryInput(Frozen):
    """What a run begins with."""

    state: RegistryState = Field(default_factory=RegistryState)


class MadeCurrent(Frozen):
    """A build of workers is current since then, by the server's clock; its hooks have this fingerprint."""

    fingerprint: str
    since: AwareDatetime


class SweepInput(Frozen):
    """Tell every call that was asked under another fingerprint than this."""

    fingerprint: str


class Swept(Frozen):
    """How many were told."""

    found: int
