"""What was spent, by model and by tool (spec §7.8).

Pure. Every line is of what providers told and of the prices of that day; a later price changes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import Field, ValidationError

from tarry.core.messages import Frozen, Usage

USAGE_MEMO = "tarry.usage"
"""The memo entry of a conversation that holds its ledger as of the end of its newest run."""

MAX_ROWS = 32
"""Models, and tools, that have a line of their own; further ones share one."""
MAX_NAME = 100
OTHERS = "(others)"


class Spent(Frozen):
    """What one model, or one tool, took. `unpriced`: of how many of its reports nobody knows the cost."""

    reports: int = Field(default=0, description="requests to a model that brought an end; or reports of a tool")
    unpriced: int = 0
    usage: Usage = Usage()

    @classmethod
    def of(cls, usage: Usage | None) -> Spent:
        """One report; of a request of which the provider told nothing, None."""
        usage = usage or Usage()
        return cls(reports=1, unpriced=1 if usage.cost is None else 0, usage=usage)

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            reports=self.reports + other.reports,
            unpriced=self.unpriced + other.unpriced,
            usage=self.usage + other.usage,
        )


class Ledger(Frozen):
    """Lines by model, as `provider/model`, and by tool. A tool's own requests are in its line, not in a model's."""

    models: dict[str, Spent] = Field(default_factory=dict)
    tools: dict[str, Spent] = Field(default_factory=dict)

    def with_request(self, model: str, usage: Usage | None) -> Ledger:
        """After a request to `model` that brought an end of any kind, and what its provider told of it."""
        return self + Ledger(models={model[:MAX_NAME]: Spent.of(usage)})

    def with_tool(self, tool: str, usage: Usage | None) -> Ledger:
        """After a report of a call of `tool`; as it is when there is none."""
        return self if usage is None else self + Ledger(tools={tool[:MAX_NAME]: Spent.of(usage)})

    @property
    def total(self) -> Spent:
        """All lines together."""
        return sum((*self.models.values(), *self.tools.values()), Spent())

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(models=_merged(self.models, other.models), tools=_merged(self.tools, other.tools))


def _merged(first: Mapping[str, Spent], second: Mapping[str, Spent]) -> dict[str, Spent]:
    rows = dict(first)
    for name, spent in second.items():
        name = name if name in rows or len(rows) < MAX_ROWS else OTHERS
        rows[name] = rows.get(name, Spent()) + spent
    return rows


def spent_in(outcome: Any) -> Ledger:
    """What the outcome of a child tells of its spending, as JSON data from outside; nothing when that is unreadable."""
    if not isinstance(outcome, dict):
        return Ledger()
    facts = outcome.get("facts")
    told = facts.get("spent") if isinstance(facts, dict) else outcome.get("spent")
    try:
        return Ledger.model_validate(told or {})
    except ValidationError:
        return Ledger()


def dollars(cost: Decimal | None) -> str:
    """A cost as people read it; `?` when it is not known."""
    return (
        "?" if cost is None else f"${cost:.4f}" if cost >= Decimal("0.0001") or not cost else f"${cost.normalize():f}"
    )
