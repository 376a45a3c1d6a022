"""Bodies of requests, read whole: so many bytes, and within so much time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from workers.gateway_replies import refused

BODY_PATIENCE = 10.0
"""Seconds in which a body must have come."""


async def body_of(request: Request, limit: int) -> bytes:
    """All of it.

    Raises:
        Refused: it is larger than `limit`, it does not come in time, or its sender left.
    """
    too_large = refused(413, f"a body has at most {limit} bytes here")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise refused(408, "the body did not come in time") from None
    except ClientDisconnect:
        raise refused(400, "the sender left") from None
    return bytes(body)
