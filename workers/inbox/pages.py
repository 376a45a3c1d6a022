"""The pages: templates that escape everything, and headers that let a browser do nothing else (spec §23.5)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from tarry.core.parked_note import is_hashed
from tarry.core.people import APPROVAL
from workers.inbox.receipts import clock
from workers.inbox.seen import seen

_HERE = Path(__file__).parent
_STATIC = {"inbox.css": "text/css", "inbox.js": "text/javascript"}

POLICY = "; ".join(
    [
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer of the inbox."""


def _time(at: datetime) -> Markup:
    """A time that the browser may show by its own clock."""
    return Markup('<time datetime="{}">{}</time>').format(at.astimezone(UTC).isoformat(timespec="seconds"), clock(at))


_PAGES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters.update(seen=seen, time=_time, is_hashed=is_hashed)
_PAGES.globals.update(APPROVAL=APPROVAL)


def page(template: str, status: int = 200, **told: Any) -> HTMLResponse:
    """A page made from a template; `person` and `form` of who sees it, where somebody is signed in."""
    text = _PAGES.get_template(template).render({"person": "", "form": "", "here": "", **told})
    return HTMLResponse(text, status, HEADERS)


def static(name: str) -> Response:
    """A file of ours that pages refer to."""
    if name not in _STATIC:
        return Response("there is no such file", 404, HEADERS, "text/plain")
    return Response((_HERE / "static" / name).read_bytes(), 200, HEADERS, _STATIC[name])
