"""Who sent a delivery: told in its id by the doors that know a person (spec §23.4).

Pure. The id is kept with the value and with the receipt, so both say who it was; a delivery of a task, of a service or
from a shell says nothing of a person.
"""

from __future__ import annotations

from signals.data import clean

APPROVAL = "approvals.decision"
"""The signal by which a person allows or denies a call. Also where no gate of the application declares it."""
MAX_PERSON = 80
"""Characters of a name."""
MAX_NONCE = 100
_PREFIX = "person/"


def person_problem(name: str) -> str | None:
    """Why nobody can be called that, or None."""
    if not 0 < len(name) <= MAX_PERSON or not name.isprintable() or name != name.strip() or clean(name, 999) != name:
        return f"a person's name has 1 to {MAX_PERSON} printable characters and no blanks around it"
    return None


def delivery_of(person: str, nonce: str) -> str:
    """The id of a delivery by a person; `nonce` tells their deliveries apart.

    Raises:
        ValueError: the name is none, or the nonce is too long or holds a slash.
    """
    if (problem := person_problem(person)) is not None:
        raise ValueError(problem)
    if not 0 < len(nonce) <= MAX_NONCE or "/" in nonce:
        raise ValueError(f"what tells a person's deliveries apart has 1 to {MAX_NONCE} characters and no slash")
    return f"{_PREFIX}{nonce}/{person}"


def names_person(delivery_id: str) -> bool:
    """Whether an id claims to be of a person: only the doors that know who somebody is make such ids."""
    return delivery_id.startswith(_PREFIX)


def person_of(delivery_id: str) -> str:
    """Who sent it; empty when its id does not say so."""
    if not names_person(delivery_id):
        return ""
    person = delivery_id.removeprefix(_PREFIX).partition("/")[2]
    return "" if person_problem(person) else person


def people_alone(signal: str) -> str:
    """Why a machine's delivery of a signal for people is not taken."""
    return clean(f"only a person answers {signal}: at the inbox, by a signed link, or through the host", 500)
