"""Who may read at the gateway: whoever sends its token."""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


def refusal_of(request: Request, tokens: tuple[str, ...]) -> Response | None:
    """The answer to a request that does not carry one of the tokens; None when it does."""
    if not tokens:
        return refused_json(403, "nobody may read here: set TARRY_GATEWAY_TOKEN for the gateway, and send it as Bearer")
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not any(_is_same(given.strip(), token) for token in tokens):
        return refused_json(401, "send the gateway's token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
    return None


def refused_json(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal for a program."""
    return JSONResponse({"answer": "refused", "reason": reason}, status, headers)


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
