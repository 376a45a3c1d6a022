"""Counting what the clients of this process ask of the server. What workers poll is not among it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from temporalio.bridge import client


@contextmanager
def counted_rpcs() -> Iterator[Counter[str]]:
    """The calls begun while the context lasts, by name."""
    counter: Counter[str] = Counter()
    plain = client.Client.call

    async def counting(self: client.Client, **call: Any) -> Any:
        counter[call["rpc"]] += 1
        return await plain(self, **call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.Client, "call", counting)
        yield counter
