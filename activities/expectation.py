"""Delivering webhooks that came before anybody expected them."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client

from tarry.app import Registry
from tarry.client.signals import deliver
from tarry.core.expectation import FORWARD, Forwarded, ForwardInput


class ExpectationActivities:
    """Delivers as the gateway does; runs again until every one has its answer."""

    def __init__(self, client: Client, registry: Registry) -> None:
        self._client = client
        self._registry = registry

    @activity.defn(name=FORWARD)
    async def forward(self, input: ForwardInput) -> Forwarded:
        """Deliver what was kept, in the order in which it came; the first that its target takes wins."""
        if self._registry.is_for_people(input.target.signal):
            return Forwarded(answers=("invalid",) * len(input.kept))
        answers: list[str] = []
        for kept in input.kept:
            target = input.target
            told = await deliver(
                self._client, target.task_id, target.signal, target.key, kept.value, delivery_id=kept.delivery_id
            )
            answers.append(told.answer)
        return Forwarded(answers=tuple(answers))
