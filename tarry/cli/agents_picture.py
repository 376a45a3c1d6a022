"""What a tree of agents looks like in a terminal. Pure: what a tree tells comes in, a drawing comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.core.ledger import Ledger, dollars
from tarry.core.live import Question
from tarry.core.subagents.paths import ROOT
from tarry.core.subagents.protocol import AgentEvent, AgentList, AgentRow

_COLUMNS = ("AGENT", "DEFINITION", "STATE", "SINCE", "MAIL", "TURNS", "TOKENS", "COST", "WAITS FOR", "ID")
_NUMBERS = ("TURNS", "TOKENS", "COST")
_WAITS = 100
_STYLES = {"running": "green", "waiting": "yellow", "stopping": "red", "corrupt": "bold red"}


def picture(listed: AgentList, own_id: str, questions: Iterable[Question], now: datetime) -> Table:
    """The agents below a conversation as a table, children below their parent. Ids come last and whole."""
    asked = questions_by_agent(questions)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True, justify="right" if column in _NUMBERS else "left")
    own = _waits("", asked.get(listed.path, ()))
    table.add_row(Text(listed.path, "bold"), "", "", "", "", "", "", "", own, Text(render.plain(own_id)))
    last = _last_children([row.path for row in listed.agents])
    for row in listed.agents:
        usage = row.spent.total.usage
        cells = (
            _branch(row.path, listed.path, last),
            Text(render.plain(row.definition)),
            Text(row.state, _STYLES.get(row.state, "")),
            Text(render.duration(now - row.since)),
            Text(mail(row) or "-", "" if mail(row) else "dim"),
            Text(f"{row.turns:,}"),
            Text(f"{usage.input_tokens + usage.output_tokens:,}"),
            Text(_cost(row.spent)),
            _waits(row.waits_for, asked.get(row.path, ())),
            Text(row.agent_id),
        )
        table.add_row(*cells)
    return table


def line(row: AgentRow, questions: Sequence[Question], now: datetime) -> Text:
    """An agent on one line."""
    since = f"  {row.state}, {render.duration(now - row.since)}"
    facts = f"  {mail(row)}" if mail(row) else ""
    waits = _waits(row.waits_for, questions)
    return Text.assemble("  ", (row.path, "bold"), f" ({render.plain(row.definition)})", since, facts, "  ", waits)


def summary(listed: AgentList, mode: str) -> str:
    """Permits, and what all of it has cost, on one line."""
    usage = listed.spent.total.usage
    queued = f", {listed.queued} queued" if listed.queued else ""
    spent = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {_cost(listed.spent)}"
    spent = spent if listed.spent.total.reports else "nothing yet"
    return f"{mode} · {listed.permits_used} of {listed.permits} permits used{queued} · agents spent {spent}"


def mail(row: AgentRow) -> str:
    """What waits for the agent to be read, and what could not be given to its parent."""
    counts = (("pending", row.pending), ("updates", row.updates), ("undelivered", row.undelivered))
    return " ".join(f"{name}={number}" for name, number in counts if number)


def questions_by_agent(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """By the path of who asks; what no agent asks is the root's."""
    found: dict[str, list[Question]] = {}
    for question in questions:
        found.setdefault(question.agent or ROOT, []).append(question)
    return found


def asks(question: Question) -> str:
    """A question, and whom it asks, on one line."""
    whom = f"asks {question.for_whom}: " if question.for_whom else "asks: "
    return whom + render.cut(render.plain(question.question), _WAITS)


def happened(event: AgentEvent, ids: Mapping[str, str]) -> Text:
    """An event on one line. `ids`: the agents by their paths."""
    names = event.turn_id or ids.get(event.path, "")
    detail = render.cut(render.plain(event.detail), _WAITS)
    return Text.assemble(
        (f"{event.at.astimezone():%H:%M:%S} ", "dim"),
        (f"{event.kind:17}", _EVENT_STYLES.get(event.kind, "cyan")),
        (event.path, "bold"),
        f"  {detail}" if detail else "",
        (f"  {names}" if names else "", "dim"),
    )


_EVENT_STYLES = {"interrupt": "red", "stop": "red", "completion-error": "bold red"}


def _waits(reason: str, questions: Sequence[Question]) -> Text:
    """What an agent waits for; a question says more than the call that asks it."""
    if not questions:
        return Text(render.cut(render.plain(reason), _WAITS))
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    return Text.assemble((render.plain(asks(questions[0])), "yellow"), more)


def _cost(ledger: Ledger) -> str:
    spent = ledger.total
    if not spent.reports:
        return "-"
    # Of some reports nobody knows the cost: what is known is the least it can be.
    return ("≥ " if spent.unpriced and spent.usage.cost is not None else "") + dollars(spent.usage.cost)


def _last_children(paths: Sequence[str]) -> set[str]:
    """Those that no sister comes after."""
    return set({path.rpartition("/")[0]: path for path in paths}.values())


def _branch(path: str, base: str, last: set[str]) -> Text:
    """The end of a path, behind the lines that lead to it from `base`."""
    parts = path.removeprefix(f"{base}/").split("/")
    above = [f"{base}/{'/'.join(parts[: depth + 1])}" for depth in range(len(parts))]
    lines = "".join("   " if one in last else "│  " for one in above[:-1])
    return Text.assemble((lines + ("└─ " if path in last else "├─ "), "dim"), parts[-1])
