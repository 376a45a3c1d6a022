"""A CI service outside of the agent: a small HTTP server that runs the tests of a repository and reports by webhook.

    python -m tarry.demo.ci.service --port 0 --webhook http://127.0.0.1:8080/webhooks/ci

`POST /builds` starts one: `{"repository", "tests", "correlation_id", "idempotency_key"}`; the same key gets the same
build. `POST /builds/<id>/cancel` and `POST /cancel` with `{"idempotency_key"}` cancel one, `GET /builds` lists them.
With `--hold` each build waits for `POST /builds/<id>/release`, so that a demo can say how long it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ValidationError

from tarry.demo.ci.builds import Build, Builds, Order, Reports
from tarry.demo.tracker import LOOPBACK
from tarry.processes import Child

DEFAULT_PORT = 8791
DEFAULT_LOGS = Path(".tarry/builds")

SECRET = "CI_WEBHOOK_SECRET"
"""The variable that holds what webhooks are signed with, at both ends."""


class _Key(BaseModel):
    idempotency_key: str


class _Handler(BaseHTTPRequestHandler):
    builds: Builds
    logs: Path

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case ["builds"]:
                self._answer(HTTPStatus.OK, [build.model_dump(mode="json") for build in self.builds.all()])
            case ["builds", build_id, "log"] if build_id in {build.id for build in self.builds.all()}:
                log = self.logs / f"{build_id}.log"
                self._send(HTTPStatus.OK, "text/plain; charset=utf-8", log.read_bytes() if log.exists() else b"")
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page; GET /builds lists the builds")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            match self.path.strip("/").split("/"):
                case ["builds"]:
                    build, is_new = self.builds.start(Order.model_validate_json(body))
                    self._answer(HTTPStatus.CREATED if is_new else HTTPStatus.OK, build.model_dump(mode="json"))
                case ["cancel"]:
                    self._found(self.builds.cancel_key(_Key.model_validate_json(body).idempotency_key))
                case ["builds", build_id, "cancel"]:
                    self._found(self.builds.cancel(build_id))
                case ["builds", build_id, "release"]:
                    self._found(self.builds.release(build_id))
                case _:
                    self._refuse(HTTPStatus.NOT_FOUND, "there is no such page; POST /builds starts a build")
        except ValidationError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, "; ".join(detail["msg"] for detail in error.errors()))

    def _found(self, build: Build | None) -> None:
        if build is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such build")
        return self._answer(HTTPStatus.OK, build.model_dump(mode="json"))

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answer(status, {"error": why})

    def _answer(self, status: HTTPStatus, body: object) -> None:
        self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def ci_service(webhook: str, *, logs: Path, log: Path, environment: Mapping[str, str]) -> Child:
    """A service on a free port that holds its builds, not yet started; when ready its `ready_line` is its URL."""
    command = [sys.executable, "-m", "tarry.demo.ci.service", "--port", "0", "--hold"]
    options = ["--webhook", webhook, "--logs", str(logs)]
    return Child("the CI service", [*command, *options], ready="^http://.+", log=log, environment=environment)


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line of output is the URL."""
    arguments = _arguments()
    if not os.environ.get(SECRET):
        _exit(f"{SECRET} is not set: give it the secret that the receiver of the webhooks checks, whsec_ and base64")
    try:
        server = ThreadingHTTPServer((LOOPBACK, arguments.port), _Handler)
    except OSError as error:
        _exit(f"port {arguments.port} cannot be used ({error.strerror}): give --port 0")
    url = f"http://{LOOPBACK}:{server.server_port}"
    _Handler.logs = arguments.logs
    _Handler.builds = Builds(Reports(arguments.logs, url, arguments.webhook, os.environ[SECRET]), hold=arguments.hold)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    print(url, flush=True)
    server.serve_forever()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tarry.demo.ci.service", description="A CI service on loopback.")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--webhook", required=True, help="URL that is told of each finished build")
    parser.add_argument("--logs", type=Path, default=DEFAULT_LOGS, help="folder of the builds' logs")
    parser.add_argument("--hold", action="store_true", help="let each build wait until it is released")
    return parser.parse_args()


def _exit(why: str) -> NoReturn:
    print(f"ci: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
