"""The search attributes of our workflows: one list of their names and types.

They stand in histories and in people's saved queries, so a name never changes its type or its meaning (spec §9.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttributeType = Literal["Keyword", "KeywordList", "Datetime"]


@dataclass(frozen=True)
class Attribute:
    """A search attribute: its name in queries and its type in Temporal's words."""

    name: str
    type: AttributeType


STATE = Attribute("TarryState", "Keyword")
CONVERSATION = Attribute("TarryConversation", "Keyword")
TOOL = Attribute("TarryTool", "Keyword")

WAITING_FOR = Attribute("TarryWaitingFor", "KeywordList")
DEADLINE = Attribute("TarryDeadline", "Datetime")

REGISTRY = Attribute("TarryRegistry", "Keyword")
"""Of a call that waits before its intent: the fingerprint of the hooks that were asked; it counts while gated."""

WORKER = Attribute("TarryWorker", "Keyword")
"""Of a call or a task whose code is run by a worker of that name; unset: by the default one (spec §25.1)."""

DECIDED = Attribute("TarryDecided", "Datetime")
"""When a person's answer last woke the task."""

# Nothing sets this yet. It is registered from the start, since a workflow that sets one which its
# namespace does not know is stuck.
PATH = Attribute("TarryPath", "Keyword")

ATTRIBUTES = (STATE, CONVERSATION, TOOL, WAITING_FOR, DEADLINE, REGISTRY, WORKER, PATH, DECIDED)
"""All that a namespace must know before a worker of ours may run on it."""
