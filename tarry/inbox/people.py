"""What an application may say about people at its inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tarry.core.live import Question

SignIn = Callable[[Mapping[str, str]], str | Awaitable[str | None] | None]
"""From the headers of a request, names in lower case, to the name of who sent it; None: nobody who is known."""

MayAnswer = Callable[[str, Question], bool]
"""Whether a person, by name, may answer a question. A quick pure function."""


def _anybody(person: str, question: Question) -> bool:
    """Everybody may answer everything."""
    return True


@dataclass(frozen=True)
class Inbox:
    """Part of an `App` (spec §23.3).

    Attributes:
        sign_in: asked at each request, before the ways that settings open. One that raises signs nobody in. A session
            that it reads from a cookie must be one of `SameSite` Lax or Strict.
        may_answer: everybody who is signed in sees everything; who may answer it is said here. By default all may.
    """

    sign_in: SignIn | None = None
    may_answer: MayAnswer = _anybody
