"""The CI service as its callers know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter

from tarry.demo.ci.builds import Build, Order

_BUILDS = TypeAdapter(list[Build])


class CiClient:
    """Asks the service at `url`.

    Every method raises:
        ConnectionError: no service answers there; one line with what to do.
        httpx.HTTPStatusError: it refuses.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def start(self, repository: Path, tests: str, key: str) -> Build:
        """The build of `key`: a new one, or the one that this key has started before."""
        order = Order(repository=repository, tests=tests, correlation_id=key, idempotency_key=key)
        return Build.model_validate_json(await self._ask("POST", "/builds", order.model_dump(mode="json")))

    async def release(self, build_id: str) -> None:
        """Let a held build run."""
        await self._ask("POST", f"/builds/{build_id}/release")

    async def cancel(self, build_id: str) -> None:
        """Stop a build. A repeat changes nothing."""
        await self._ask("POST", f"/builds/{build_id}/cancel")

    async def cancel_key(self, key: str) -> None:
        """Stop the build of `key`, if it has started one."""
        await self._ask("POST", "/cancel", {"idempotency_key": key}, may_miss=True)

    async def builds(self) -> list[Build]:
        """All builds, oldest first."""
        return _BUILDS.validate_json(await self._ask("GET", "/builds"))

    async def _ask(self, method: str, path: str, body: Any = None, *, may_miss: bool = False) -> bytes:
        try:
            # No proxy of the environment: the service is on this machine.
            async with httpx.AsyncClient(base_url=self._url, trust_env=False) as client:
                response = await client.request(method, path, json=body)
        except httpx.ConnectError as error:
            hint = "start one with `python -m tarry.demo.ci.service`, or set DEMO_CI_URL"
            raise ConnectionError(f"no CI service answers at {self._url}: {hint}") from error
        if not (may_miss and response.status_code == httpx.codes.NOT_FOUND):
            response.raise_for_status()
        return response.content
