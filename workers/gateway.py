"""The gateway process: `python -m workers.gateway --app module:attribute`.

Takes webhooks and callbacks over HTTP and hands them to Temporal; it keeps nothing itself, so any number may run, and
one that is restarted has forgotten nothing. SIGTERM or SIGINT: no new connections, what is under way is finished; a
second one ends it at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta

import uvicorn
from temporalio.client import Client

from tarry.app import App
from tarry.connect import ConnectError, connect
from tarry.loading import LoadError
from tarry.settings import Settings, SettingsError
from tarry.store import StoreError
from tarry.webhooks import WebhookError
from tarry.webhooks.callbacks import required_secrets
from tarry.webhooks.sources import sources_by_name
from workers.beginning import begin
from workers.gateway_app import Door, Gateway
from workers.gateway_events import Streams
from workers.gateway_sending import Road
from workers.gateway_wake import Waking
from workers.gauges import showing
from workers.inbox.routes import inbox_of
from workers.poking import Poker

DRAIN_PATIENCE = 5
"""Seconds in which requests, and then deliveries behind their answers, may finish."""

HEADER_BYTES = 128 * 1024
"""A callback URL of the longest key fits."""


class ListenError(Exception):
    """The address cannot be listened on. One line."""


def doors_of(app: App, environment: Mapping[str, str]) -> dict[str, Door]:
    """The sources of an application by name, with their secrets, which are read now.

    Raises:
        WebhookError: a secret is missing, or two sources share a name.
    """
    sources = sources_by_name(app.webhooks)
    return {name: Door(source, source.secrets(environment)) for name, source in sources.items()}


def build_gateway(client: Client, doors: Mapping[str, Door], settings: Settings, app: App | None = None) -> Gateway:
    """A gateway; without callback secrets it knows no callback URL, and without an application it has no inbox."""
    callback_secrets = required_secrets(settings) if settings.callback_secrets else ()
    tokens = tuple(settings.gateway_token.get_secret_value().split()) if settings.gateway_token else ()
    registry = (app or App()).registry
    road = Road(client, settings.task_queue, Poker(settings.scale_socket), registry.is_for_people)
    waking = Waking(client, settings.task_queue, tokens)
    inbox = inbox_of(client, app, road, settings) if app is not None else None
    return Gateway(road, doors, callback_secrets, Streams(client, tokens), waking, inbox)


class Server(uvicorn.Server):
    """Serves a gateway; whoever runs it says when to stop, with `should_exit`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        config = uvicorn.Config(
            gateway.app(),
            http="h11",
            h11_max_incomplete_event_size=HEADER_BYTES,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_PATIENCE,
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process: uvicorn would end it as if it had been killed."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where it listens once it does."""
        await super().startup(sockets)
        for listening in sockets or []:
            print(f"ready {url_of(listening)}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, which have no end of their own; finish what was answered `unavailable` and is under way."""
        self._gateway.close()
        await super().shutdown(sockets)
        await self._gateway.under_way.drain(DRAIN_PATIENCE)


def listen(host: str, port: int, variables: str = "TARRY_GATEWAY_HOST and TARRY_GATEWAY_PORT") -> socket.socket:
    """A socket at the address, which `variables` set.

    Raises:
        ListenError: it is taken, or none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(f"cannot listen on {host}:{port} ({reason}): set {variables}") from error


def url_of(listening: socket.socket) -> str:
    """The address of a socket as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: App, settings: Settings) -> None:
    """Run a gateway until the process is told to stop."""
    doors = doors_of(app, os.environ)
    client = await connect(settings, wait=timedelta(seconds=10))
    listening = [listen(settings.gateway_host, settings.gateway_port)]
    server = Server(build_gateway(client, doors, settings, app))
    _on_signals(server)
    async with showing(client, settings, app.registry.workers):
        await server.serve(listening)


def _on_signals(server: uvicorn.Server) -> None:
    def told() -> None:
        if server.should_exit:
            os._exit(1)
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)


def main() -> None:
    """The process. Exit code 2: something must be put right first, and one line says what."""
    parser = argparse.ArgumentParser(prog="python -m workers.gateway", description="Take webhooks for an application.")
    parser.add_argument("--app", help="module:attribute; TARRY_APP by default")
    arguments = parser.parse_args()
    # Its own lines say nothing that ours do not.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        settings, _, app = begin("gateway", arguments.app)
        asyncio.run(serve(app, settings))
    except (LoadError, SettingsError, StoreError, ConnectError, WebhookError, ListenError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    sys.stderr.flush()
    # Threads of the SDK still call into Python: an interpreter that takes itself down meanwhile aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
