"""`tarry usage`: what was spent, by model and by tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of, no_worker, require_a_worker
from tarry.client import Harness
from tarry.client.tree_usage import tree_usage
from tarry.core.ledger import Ledger, Spent, dollars

T = TypeVar("T")

_WORKER_PATIENCE = 15.0
_COLUMNS = ("WHO", "REPORTS", "IN", "CACHED", "OUT", "COST")


def usage(
    conversation: Annotated[str | None, typer.Argument(help="One conversation; all by default.")] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Of that conversation and all agents below it.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Print what was spent, by model and tool.

    Of one conversation up to this moment, for which a worker must be up; of all of them as of the end of their newest
    runs, for which none must. With --tree also what each agent spent itself, and the total of all.
    """
    if tree and conversation is None:
        raise Problem(ExitCode.PUT_RIGHT, "usage", "--tree is of one conversation: give its id")
    return run_async(_usage(Output(as_json=as_json), conversation, is_tree=tree))


async def _usage(output: Output, conversation_id: str | None, *, is_tree: bool) -> int:
    harness = await Harness.connect()
    facts: dict[str, object] = {}
    agents: dict[str, Ledger] = {}
    if conversation_id is None:
        report = await harness.usage()
        ledger = report.total
        facts["conversations"] = {name: told.model_dump(mode="json") for name, told in report.conversations.items()}
        facts["unreadable"] = report.unreadable
        if report.unreadable:
            output.complaint(f"not counted, since this process has no key for them: {_counted(report.unreadable)}")
    else:
        conversation = conversation_of(harness, conversation_id)
        facts["conversation_id"] = conversation_id
        if is_tree:
            agents = await _within_patience(harness, lambda: tree_usage(harness, conversation_id))
            facts["agents"] = {path: told.model_dump(mode="json") for path, told in agents.items()}
        ledger = sum(agents.values(), Ledger()) if is_tree else await _within_patience(harness, conversation.usage)
    if output.as_json:
        output.json({**facts, **ledger.model_dump(mode="json"), "total": ledger.total.model_dump(mode="json")})
    elif ledger.total.reports:
        output.table(_table(ledger, agents))
    else:
        output.remark("nothing was spent")
    return ExitCode.DONE


async def _within_patience(harness: Harness, ask: Callable[[], Awaitable[T]]) -> T:
    """What a worker answers.

    Raises:
        Problem: none serves.
    """
    await require_a_worker(harness)
    try:
        async with asyncio.timeout(_WORKER_PATIENCE):
            return await ask()
    except TimeoutError:
        raise no_worker(harness.settings) from None


def _counted(names: Sequence[str]) -> str:
    """How many conversations, and the first of them."""
    first = render.plain(names[0])
    return f"conversation {first}" if len(names) == 1 else f"{len(names)} conversations, {first} among them"


def _table(ledger: Ledger, agents: Mapping[str, Ledger]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True, justify="left" if column == "WHO" else "right")
    for path, told in agents.items():
        table.add_row(*(Text(cell, "dim") for cell in _cells(path, told.total)))
    rows = [*ledger.models.items(), *((f"tool {name}", spent) for name, spent in ledger.tools.items())]
    for name, spent in [*rows, ("total", ledger.total)]:
        table.add_row(*(Text(cell) for cell in _cells(name, spent)))
    return table


def _cells(name: str, spent: Spent) -> tuple[str, ...]:
    usage = spent.usage
    # Of some reports nobody knows the cost: what is known is the least it can be.
    least = "≥ " if spent.unpriced and usage.cost is not None else ""
    numbers = (spent.reports, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    return (render.plain(name), *(f"{number:,}" for number in numbers), least + dollars(usage.cost))
