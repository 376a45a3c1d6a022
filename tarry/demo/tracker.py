"""An issue tracker outside of the agent: a small HTTP server with its tickets in a file.

    python -m tarry.demo.tracker --port 0 --file tickets.json

`POST /tickets` with `{"title": …}` opens a ticket; `GET /tickets` lists them. A request that repeats an
`Idempotency-Key` gets the ticket of the first and opens none, as with real providers; without a key every
request opens one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from tarry.processes import Child

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8790
DEFAULT_FILE = Path(".tarry/tickets.json")


class Ticket(BaseModel):
    """A ticket as it is answered and kept; `key` is what its request named as its idempotency key."""

    id: str
    title: str
    key: str | None = None


class _NewTicket(BaseModel):
    title: str = Field(min_length=1)


_TICKETS = TypeAdapter(list[Ticket])


class KeyConflict(Exception):
    """The idempotency key belongs to a ticket with another title; none was opened."""


class Tickets:
    """The tickets in a file. A ticket that was answered survives a kill of the server."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def all(self) -> list[Ticket]:
        """Every ticket, oldest first."""
        return _TICKETS.validate_json(self._file.read_bytes()) if self._file.exists() else []

    def open(self, title: str, key: str | None) -> tuple[Ticket, bool]:
        """The ticket, and whether it is new.

        Raises:
            KeyConflict: `key` opened a ticket with another title.
        """
        with self._lock:
            tickets = self.all()
            known = next((ticket for ticket in tickets if key is not None and ticket.key == key), None)
            if known is not None:
                if known.title != title:
                    raise KeyConflict(f"the key belongs to {known.id}, which has another title")
                return known, False
            ticket = Ticket(id=f"TICKET-{len(tickets) + 1}", title=title, key=key)
            self._write([*tickets, ticket])
            return ticket, True

    def _write(self, tickets: list[Ticket]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_name(f"{self._file.name}.new")
        draft.write_bytes(_TICKETS.dump_json(tickets, indent=2))
        draft.replace(self._file)


class _Handler(BaseHTTPRequestHandler):
    tickets: Tickets

    def do_GET(self) -> None:
        if self.path != "/tickets":
            return self._answer(HTTPStatus.NOT_FOUND, {"error": "there is only /tickets"})
        return self._answer(HTTPStatus.OK, [ticket.model_dump() for ticket in self.tickets.all()])

    def do_POST(self) -> None:
        if self.path != "/tickets":
            return self._answer(HTTPStatus.NOT_FOUND, {"error": "there is only /tickets"})
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            title = _NewTicket.model_validate_json(body).title
            ticket, is_new = self.tickets.open(title, self.headers.get("Idempotency-Key"))
        except ValidationError:
            return self._answer(HTTPStatus.BAD_REQUEST, {"error": 'give {"title": "…"}'})
        except KeyConflict as error:
            return self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        return self._answer(HTTPStatus.CREATED if is_new else HTTPStatus.OK, ticket.model_dump())

    def _answer(self, status: HTTPStatus, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def tracker(file: Path, *, log: Path, environment: Mapping[str, str]) -> Child:
    """A tracker on a free port, not yet started; when it is ready its `ready_line` is its URL."""
    command = [sys.executable, "-m", "tarry.demo.tracker", "--port", "0", "--file", str(file)]
    return Child("the tracker", command, ready="^http://.+", log=log, environment=environment)


async def tickets_at(url: str) -> list[Ticket]:
    """What the tracker at `url` holds, oldest first.

    Raises:
        httpx.HTTPError: it does not answer, or refuses.
    """
    # No proxy of the environment: it is on this machine.
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"{url}/tickets")
    return _TICKETS.validate_json(response.raise_for_status().content)


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line of output is the URL."""
    parser = argparse.ArgumentParser(prog="python -m tarry.demo.tracker", description="An issue tracker on loopback.")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--file", type=Path, default=DEFAULT_FILE, help="keeps the tickets (default: %(default)s)")
    arguments = parser.parse_args()
    handler = type("Handler", (_Handler,), {"tickets": Tickets(arguments.file)})
    try:
        server = ThreadingHTTPServer((LOOPBACK, arguments.port), handler)
    except OSError as error:
        print(f"tracker: port {arguments.port} cannot be used ({error.strerror}): give --port 0", file=sys.stderr)
        sys.exit(2)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    print(f"http://{LOOPBACK}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
