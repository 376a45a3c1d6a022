"""No task answers for a person: what is asked of people is sent by none, and brought by no URL of one (spec §23.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from signals.tokens import Signal, SignalKey
from tarry.app import Registry
from tarry.core.people import names_person, people_alone


@dataclass(frozen=True)
class PeopleAlone:
    """Looks at what running code wants to send. A name counts whatever token it comes with."""

    registry: Registry

    def problem(self, token: Signal[Any], delivery_id: str | None = None) -> str:
        """Why it is not sent; empty when it may be."""
        if token.for_people or self.registry.is_for_people(token.name):
            return people_alone(token.name)
        return "a task cannot send in a person's name" if names_person(delivery_id or "") else ""

    def check(self, key: SignalKey) -> None:
        """Refuse to open a way in from outside.

        Raises:
            ValueError: only people answer that key.
        """
        if self.registry.is_for_people(key.signal):
            raise ValueError(people_alone(key.signal))
