"""What application code did wrong while a request was made: for people, and once in a run."""

from __future__ import annotations

from collections.abc import Iterable

from temporalio import activity

from tarry.core.results import exception_text
from tarry.core.text import bound_text

MAX_REPORT = 1024


def failed(what: str, error: Exception) -> str:
    """That `what` failed, with the error's own type and text; also written to the log."""
    activity.logger.warning("%s failed", what, exc_info=error)
    return bound_text(f"{what} failed with {exception_text(error)}", max_bytes=MAX_REPORT).text


class Reports:
    """The problems of one request, as notes for the transcript."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._new: dict[str, None] = {}

    def know(self, notes: Iterable[str]) -> None:
        """What the run has noted already, and need not be told again."""
        self._known.update(notes)

    def add(self, what: str, error: Exception) -> None:
        """`what` failed with `error`."""
        self._new[failed(what, error)] = None

    @property
    def new(self) -> tuple[str, ...]:
        """What is to be noted."""
        return tuple(text for text in self._new if text not in self._known)
