"""What an extension offers at one request of a model: its tools as they are shown then, and sections (spec §13.7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarry import client as clients
from tarry.core.agent import Agent
from tarry.sections import Section


@dataclass(frozen=True)
class OfferAsked:
    """The request for which an extension is asked.

    `agent` is what the conversation goes by, filled in with what the application has; `tree_id` names the tree of
    agents that it is part of (spec §17).
    """

    conversation_id: str
    generation_id: str
    tree_id: str
    agent: Agent
    harness: clients.Harness


@dataclass(frozen=True)
class ToolOffer:
    """How a tool is shown; None: as it is declared.

    `parameters` is a JSON Schema of an object. It tells the model more than the declaration does, such as the names
    that there are today: the arguments of a call are held against the declaration.
    """

    description: str | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Offered:
    """What one extension offers. Of its tools, None is not offered, and what is not named is offered as declared.

    Tools of other extensions are not its to offer. Sections follow those that extensions have for good.
    """

    tools: Mapping[str, ToolOffer | None] = field(default_factory=dict)
    sections: Sequence[Section] = ()


Offer = Callable[[OfferAsked], Awaitable[Offered | None] | Offered | None]
"""Is asked before every request of a model. Of a tool that is not offered a call is answered as one of a tool that is
not there.

Code that raises, returns what is none, or gives no answer in time (10 s for all extensions together), keeps what was
shown last, and is noted once in a run. What changes with every request is told anew with every request.
"""
