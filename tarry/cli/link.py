"""`tarry link`: a signed link by which a person gives one answer, for a chat message or a mail (spec §23.8)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from signals.tokens import SignalKey
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.signals import TaskArgument
from tarry.client import Harness
from tarry.webhooks import WebhookError


def link(
    task: TaskArgument,
    allow: Annotated[bool, typer.Option("--allow", help="Offer to allow the call.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Offer to deny it.")] = False,
    value: Annotated[str | None, typer.Option(help="Offer this value instead, as JSON.")] = None,
    signal: Annotated[str | None, typer.Option(help="Of several that the task waits for, the one to answer.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key.")] = None,
    to: Annotated[str, typer.Option(help="Who it is for: recorded as the one who answered.")] = "",
    hours: Annotated[float | None, typer.Option(min=0.01, max=8_760, help="For how long it is good.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Print a link that offers a person one answer to what a task asks.

    Opening it shows the question and decides nothing; its button does, once, and only while the task asks this for the
    same arguments. Whoever holds it is taken for the person it is for. Good until the question's deadline, for a week
    at most unless `--hours` says so.
    """
    offered = _offered(allow, deny, value)
    if (signal is None) is not (key is None):
        raise Problem(ExitCode.PUT_RIGHT, "usage", "give --signal and --key together, or neither")
    chosen = SignalKey(signal, key) if signal is not None and key is not None else None
    return run_async(_link(Output(as_json=as_json), task, offered, chosen, to, hours))


async def _link(
    output: Output, task_id: str, value: Any, key: SignalKey | None, person: str, hours: float | None
) -> int:
    harness = await Harness.connect()
    expires = datetime.now(UTC) + timedelta(hours=hours) if hours is not None else None
    try:
        url = await harness.answer_link(task_id, value, key=key, person=person, expires=expires)
    except (WebhookError, ValueError) as error:
        raise Problem(ExitCode.PUT_RIGHT, "no_link", str(error)) from None
    if output.as_json:
        output.json({"task_id": task_id, "url": url})
    else:
        output.text(url)
    return ExitCode.DONE


def _offered(allow: bool, deny: bool, value: str | None) -> Any:
    """The value that is offered.

    Raises:
        Problem: none is, or more than one, or no JSON.
    """
    if [allow, deny, value is not None].count(True) != 1:
        raise Problem(ExitCode.PUT_RIGHT, "usage", "say what it offers: --allow, --deny or --value")
    if value is None:
        return {"allow": allow}
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise Problem(ExitCode.PUT_RIGHT, "not_json", "what --value holds is no JSON: quote it for the shell") from None
