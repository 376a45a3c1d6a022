"""One step of a drill: what was done, what was expected of it, and what was found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from tarry.drills.kit.commands import Ran, run, written
from tarry.drills.kit.report import StepReport
from tarry.testing.waiting import eventually

T = TypeVar("T")


class Step:
    """Collects what a step tells. A check that fails fails the step, and lets it go on."""

    def __init__(self, title: str, expected: str, environment: Mapping[str, str]) -> None:
        self._title = title
        self._expected = expected
        self._environment = environment
        self._did: list[str] = []
        self._found: list[str] = []
        self._ok = True

    async def temporal(self, *arguments: str, code: int | None = 0) -> Ran:
        """Give Temporal's own command, against the server of the drill.

        Raises:
            CommandFailed: it ended with another exit code than `code`; with None any will do.
        """
        return await self._run("temporal", arguments, code)

    async def tarry(self, *arguments: str, code: int | None = 0) -> Ran:
        """Give our own command, with the server and the settings of the drill.

        Raises:
            CommandFailed: it ended with another exit code than `code`; with None any will do.
        """
        return await self._run("tarry", arguments, code)

    async def _run(self, name: str, arguments: tuple[str, ...], code: int | None) -> Ran:
        self.did(written(name, arguments))
        return await run(name, arguments, self._environment, code=code)

    def did(self, what: str) -> None:
        """Tell of something that was done and is no command."""
        self._did.append(what)

    def found(self, fact: str) -> None:
        """Tell a fact, without judging it."""
        self._found.append(fact)

    def check(self, what: str, found: T, wanted: T) -> None:
        """Tell a fact, and fail the step when it is not as wanted."""
        is_wanted = found == wanted
        self._ok = self._ok and is_wanted
        self.found(f"{what}: {_told(found)}" + ("" if is_wanted else f" (wanted: {_told(wanted)})"))

    async def until(self, what: str, ask: Callable[[], Awaitable[T]], wanted: T) -> None:
        """Ask until the answer is as wanted, for 60 s at most; then as `check` of the last answer."""
        try:
            found = await eventually(ask, lambda answer: answer == wanted)
        except TimeoutError:
            found = await ask()
        self.check(what, found, wanted)

    def failed(self, why: str) -> None:
        """Fail the step, for something that is no fact to compare."""
        self._ok = False
        self.found(why)

    def report(self, seconds: float) -> StepReport:
        """What it comes to, `seconds` after it began."""
        return StepReport(
            title=self._title,
            did=tuple(self._did),
            expected=self._expected,
            found=tuple(self._found),
            ok=self._ok,
            seconds=round(seconds, 1),
        )


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        told = ", ".join(f"{name} {_told(one)}" for name, one in value.items())
    elif isinstance(value, list | tuple):
        told = ", ".join(map(_told, value))
    else:
        told = "" if value is None else str(value)
    return told or "nothing"
