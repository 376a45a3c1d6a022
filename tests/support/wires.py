"""A client's wire that a test looks at, and holds."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import Client, Interceptor, OutboundInterceptor


class Wire(Interceptor):
    """Names every call that a client makes of workflows. While it is held none gets through; a fault is raised."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.free = asyncio.Event()
        self.free.set()
        self.fault: Exception | None = None

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """Stand between the client and the server."""
        return _Watched(next, self)

    def client(self, client: Client) -> Client:
        """The same connection over this wire."""
        config = client.config()
        config["interceptors"] = [self]
        return Client(**config)

    async def pass_on(self, name: str) -> None:
        """A call of that name comes by."""
        self.calls.append(name)
        await self.free.wait()
        if self.fault is not None:
            raise self.fault


class _Watched(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, wire: Wire) -> None:
        super().__init__(next)
        self._wire = wire

    async def start_workflow(self, input: Any) -> Any:
        await self._wire.pass_on("start")
        return await super().start_workflow(input)

    async def describe_workflow(self, input: Any) -> Any:
        await self._wire.pass_on("describe")
        return await super().describe_workflow(input)

    async def signal_workflow(self, input: Any) -> None:
        await self._wire.pass_on("signal")
        await super().signal_workflow(input)

    async def start_workflow_update(self, input: Any) -> Any:
        await self._wire.pass_on("update")
        return await super().start_workflow_update(input)
