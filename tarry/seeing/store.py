"""A store whose failures are counted (spec §24.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from tarry.seeing import metrics
from tarry.seeing.exporting import process_meter


class CountedStore(StorageDriver):
    """What `store` does, under its name."""

    def __init__(self, store: StorageDriver) -> None:
        self._store = store

    def name(self) -> str:
        """As the store's."""
        return self._store.name()

    def type(self) -> str:
        """As the store's."""
        return self._store.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """As the store does."""
        with _counted("write"):
            return await self._store.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """As the store does."""
        with _counted("read"):
            return await self._store.retrieve(context, claims)


@contextmanager
def _counted(operation: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # whatever a driver raises
        metrics.count(process_meter(), metrics.STORE_ERRORS, operation=operation)
        raise
