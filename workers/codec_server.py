"""A codec server: `python -m workers.codec_server`, for the Web UI and the `temporal` command (docs/security.md).

Whoever has the token reads what the deployment's keys open, also what its store keeps, and may encrypt. It asks nothing
of Temporal and changes nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import uvicorn
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.converter import DataConverter

from tarry.codec import KeysError, UnreadablePayload, load_keyring
from tarry.codec.unreadable import why_closed
from tarry.connect import data_converter
from tarry.settings import Settings, SettingsError, load_settings
from tarry.store import StoreError
from workers.gateway import ListenError, listen, url_of

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request: the UI sends what it shows on one page."""

LOG = logging.getLogger("tarry.codec")

Work = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


class _Refused(Exception):
    """A request that is not served: a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class CodecServer:
    """What happens to a request.

    Attributes:
        converter: of the deployment, one that reads what is in the clear too: it is shown to who may see all.
        tokens: each is good.
        origins: of the Web UIs whose pages may ask.
    """

    converter: DataConverter
    tokens: tuple[str, ...]
    origins: tuple[str, ...]

    def app(self) -> Starlette:
        """The ASGI application. The Web UI can send no token of its own, so it may stand in the path too."""
        routes = [
            Route(f"{prefix}/{name}", self._answering(name, work), methods=["POST"])
            for prefix in ("", "/{token}")
            for name, work in (("decode", self.decode), ("encode", self.encode))
        ]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=self.origins,
            allow_methods=["POST"],
            allow_headers=["authorization", "content-type", "x-namespace"],
            allow_private_network=True,
        )
        app = Starlette(routes=[*routes, Route("/healthz", _health, methods=["GET"])], middleware=[cors])
        app.router.redirect_slashes = False
        return app

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Each as it was before it was encrypted and stored; one that does not open as a text that says why."""
        return [await self._decoded(payload) for payload in payloads]

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Each under the active key, never put into the store."""
        assert self.converter.payload_codec is not None
        return await self.converter.payload_codec.encode(payloads)

    async def _decoded(self, payload: Payload) -> Payload:
        try:
            [found] = await self.converter.decode([payload], [RawValue])
        # What drivers raise, and the SDK where a reference leads nowhere, is of the second kind.
        except (UnreadablePayload, StoreError, RuntimeError) as error:
            return _told(" ".join(str(error).split()))
        decoded: Payload = found.payload
        reason = why_closed(decoded)
        return decoded if reason is None else _told(reason)

    def _answering(self, name: str, work: Work) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                self._check(request)
                payloads = await _payloads(request)
                answered = MessageToJson(Payloads(payloads=await work(payloads)), indent=None)
            except _Refused as error:
                LOG.info(json.dumps({"status": error.status, "asked": name, "reason": str(error)}))
                return JSONResponse({"error": str(error)}, status_code=error.status)
            LOG.info(json.dumps({"status": 200, "asked": name, "payloads": len(payloads)}))
            return Response(answered, media_type="application/json")

        return answer

    def _check(self, request: Request) -> None:
        origin = request.headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise _Refused(403, "pages of this origin may not ask: see TARRY_CODEC_ORIGINS")
        given = request.path_params.get("token") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not any(hmac.compare_digest(given.encode(), token.encode()) for token in self.tokens):
            raise _Refused(401, "a token is needed")


def _told(reason: str) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(f"unreadable: {reason}").encode())


async def _payloads(request: Request) -> list[Payload]:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise _Refused(413, f"a body has at most {MAX_BODY} bytes here")
        return list(Parse(bytes(body), Payloads()).payloads)
    except ClientDisconnect:
        raise _Refused(400, "the sender left") from None
    except (ParseError, UnicodeDecodeError, RecursionError):
        raise _Refused(400, "JSON of payloads is expected") from None


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def build_codec_server(settings: Settings) -> CodecServer:
    """A codec server with the deployment's keys and store.

    Raises:
        SettingsError, StoreError: there are no keys, no token, or no such store.
    """
    keyring = load_keyring(settings)
    if keyring is None:
        raise KeysError("nothing is encrypted: set TARRY_CODEC_KEYS and TARRY_CODEC_ACTIVE")
    if settings.codec_token is None:
        raise SettingsError(
            "TARRY_CODEC_TOKEN is missing: who sends it may read everything; `tarry keys token` makes one"
        )
    tokens = tuple(settings.codec_token.get_secret_value().split())
    converter = data_converter(settings.store, replace(keyring, reads_clear=True))
    return CodecServer(converter, tokens, tuple(settings.codec_origins.split()))


class Server(uvicorn.Server):
    """Serves until whoever runs it says when to stop, with `should_exit`."""

    def __init__(self, codec: CodecServer) -> None:
        super().__init__(
            uvicorn.Config(
                codec.app(),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where it listens once it does."""
        await super().startup(sockets)
        for listening in sockets or []:
            print(f"ready {url_of(listening)}", flush=True)


async def serve(settings: Settings) -> None:
    """Run a codec server until the process is told to stop."""
    server = Server(build_codec_server(settings))

    def told() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told)
    await server.serve([listen(settings.codec_host, settings.codec_port, "TARRY_CODEC_HOST and TARRY_CODEC_PORT")])


def main() -> None:
    """The process. Exit code 2: something must be put right first, and one line says what."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        asyncio.run(serve(load_settings()))
    except (SettingsError, StoreError, ListenError) as error:
        print(f"codec: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
