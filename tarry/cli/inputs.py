"""What many commands take from a person, checked before anything is sent."""

from __future__ import annotations

from typing import Any

import typer

from tarry.cli.exits import ExitCode, Problem
from tarry.core.protocol import MAX_REQUEST_ID


def request_option(names: str) -> Any:
    """`--request-id`; its help ends with what a repeat under it does."""
    return typer.Option(help=f"Names {names}", callback=_checked_request_id)


def _checked_request_id(request_id: str | None) -> str | None:
    if request_id is not None and len(request_id) > MAX_REQUEST_ID:
        raise typer.BadParameter(f"it has {len(request_id)} characters; {MAX_REQUEST_ID} are allowed")
    return request_id


def required_text(text: str) -> str:
    """An input that says something.

    Raises:
        Problem: it is blank.
    """
    if not text.strip():
        raise Problem(ExitCode.PUT_RIGHT, "no_text", "the input is blank: give a text")
    return text
