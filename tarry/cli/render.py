"""What transcripts and work look like in a terminal. Pure: everything comes in, a drawing comes out.

Text of models and tools is never markup, and its control characters never reach a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from signals.box import Receipt
from tarry.client import WakePlan, WorkItem
from tarry.core.lineage import Parent
from tarry.core.messages import AssistantMessage, ToolCallRequest, ToolMessage
from tarry.core.transcript import Entry

RESULT_LINES = 20
"""Lines of a tool result that are shown; JSON holds all."""

_ARGUMENTS = 120
_QUESTION = 60
_NAME = 250
_INDENT = "  "
_RUN = re.compile(r"/g\d+$")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without the control characters by which it could move the cursor or recolour what follows."""
    return _CONTROLS.sub("", text)


def entry(entry: Entry) -> Text:
    """An entry of a transcript: a headline, its text indented, an empty line."""
    drawn = _headline(entry)
    match entry.message:
        case AssistantMessage() as message:
            _indented(drawn, message.text)
            for request in message.calls:
                drawn.append("\n" + _INDENT).append_text(call(request))
        case ToolMessage() as message:
            _indented(drawn, message.text, RESULT_LINES)
        case None:
            _indented(drawn, entry.note, style="italic dim")
        case message:
            _indented(drawn, message.text)
    return drawn.append("\n")


def _headline(entry: Entry) -> Text:
    at = moment(entry.at)
    match entry.message:
        case AssistantMessage() as message:
            cut = () if message.stop in ("stop", "tool_use") else (message.stop,)
            return _joined("assistant", "green", at, entry.model, *_tokens(entry), *cut)
        case ToolMessage() as message:
            code = (entry.tool.code if entry.tool else "") or ("error" if message.is_error else "ok")
            spent = duration(timedelta(milliseconds=entry.tool.duration_ms)) if entry.tool else ""
            return _joined(plain(message.name), "red" if message.is_error else "cyan", at, code, spent)
    if entry.kind == "compaction" and entry.head is not None:
        return _joined(entry.kind, "bold", at, entry.model, *_tokens(entry), f"of all before entry {entry.head.index}")
    return _joined(entry.kind, "dim" if entry.message is None else "bold", at)


def _joined(name: str, style: str, *facts: str) -> Text:
    return Text.assemble((name, style), (" · " + " · ".join(fact for fact in facts if fact), "dim"))


def _tokens(entry: Entry) -> tuple[str, ...]:
    if entry.usage is None:
        return ()
    return (f"{entry.usage.input_tokens:,} tokens in, {entry.usage.output_tokens:,} out",)


def _indented(drawn: Text, text: str, limit: int | None = None, style: str = "") -> None:
    lines = plain(text).splitlines()
    for line in lines[:limit]:
        drawn.append(f"\n{_INDENT}{line}", style)
    if limit is not None and len(lines) > limit:
        drawn.append(f"\n{_INDENT}… {len(lines) - limit} more lines, see --json", "dim")


def call(request: ToolCallRequest) -> Text:
    """A call as the model wrote it, on one line."""
    shown = cut(plain(request.arguments), _ARGUMENTS)
    return Text.assemble(("→ ", "cyan"), (plain(request.name), "bold"), " ", (shown, "dim"))


def work(items: Sequence[WorkItem], now: datetime) -> Table:
    """What is not over, as a table; what it waits for, when anything is parked. Ids come last and whole."""
    is_waiting = any(item.waiting_for or item.until or item.question for item in items)
    is_asking = any(item.path for item in items)
    is_forked = any(item.parent for item in items)
    agents = {item.id: item.agent for item in items if item.agent}
    tools = {item.id: item.tool for item in items}
    is_routed = any(item.worker for item in items)
    table = Table(box=None, pad_edge=False, header_style="dim")
    waiting_columns = ("WAITS FOR", "UNTIL", "ASKS") if is_waiting else ()
    for column in (
        "STATE",
        "KIND",
        "TOOL",
        *(("WORKER",) if is_routed else ()),
        "AGE",
        *waiting_columns,
        *(("PATH",) if is_asking else ()),
        *(("FORK OF",) if is_forked else ()),
        *(("AGENT",) if agents else ()),
        "ID",
    ):
        table.add_column(column, no_wrap=True)
    for item in items:
        state = Text(item.state or "-", "bold red" if item.state == "held" else "")
        waiting = _waiting(item, now) if is_waiting else ()
        path = (_path(item.path, tools, agents),) if is_asking else ()
        parent = (fork_point(item.parent),) if is_forked else ()
        agent = (item.agent,) if agents else ()
        worker = (f"{item.worker} (none is there)" if item.unserved else item.worker,) if is_routed else ()
        texts = (item.tool, *worker, duration(now - item.since), *waiting, *path, *parent, *agent, item.id)
        table.add_row(state, item.kind, *(Text(plain(text) or "-") for text in texts))
    return table


def fork_point(parent: Parent | None) -> str:
    """Where a fork begins."""
    return f"{parent.conversation_id} at {parent.at}" if parent is not None else ""


def beginning(parent: Parent) -> Text:
    """The line between the entries that a fork shares and its own, and an empty one."""
    return Text(f"── from here on its own: a fork of {plain(fork_point(parent))} ──\n", "dim")


def _waiting(item: WorkItem, now: datetime) -> tuple[str, ...]:
    return (
        ", ".join(item.waiting_for),
        ahead(item.until, now) if item.until else "",
        cut(item.question, _QUESTION),
    )


def _path(path: tuple[str, ...], tools: Mapping[str, str], agents: Mapping[str, str]) -> str:
    """Who asks, for a person: the root and the tools on the way; runs and conversations between them say nothing.

    The path of a subagent stands for the way to it.
    """
    way = list(path[1:])
    inmost = next((step for step in reversed(way) if step in agents), "")
    if inmost:
        del way[: way.index(inmost)]
    steps = [step for step in way if step == inmost or ("/" in step and not _RUN.search(step))]
    return " › ".join([*path[:1], *(agents.get(step) or tools.get(step) or step.rpartition("/")[2] for step in steps)])


def receipt(receipt: Receipt) -> Text:
    """What became of a delivery, on one line."""
    name = cut(plain(f"{receipt.signal}/{receipt.key}"), _NAME)
    reason = f": {' '.join(plain(receipt.reason).split())}" if receipt.reason else ""
    return Text.assemble((receipt.answer, "bold"), f"{reason} ", (f"({name}, {moment(receipt.at)})", "dim"))


_WHY = {"backlog": "tasks wait for a worker", "running": "work runs", "deadline": "a deadline has passed"}


def wake(plan: WakePlan, now: datetime) -> str:
    """Whether workers are needed, on one line."""
    if plan.active:
        return f"active: {_WHY.get(plan.why, plan.why)}"
    return f"idle until {moment(plan.at)} ({ahead(plan.at, now)})" if plan.at else "idle, and nothing is due"


def moment(at: datetime) -> str:
    """A time as people here write it."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ahead(at: datetime, now: datetime) -> str:
    """How far ahead a time lies."""
    return f"in {duration(at - now)}" if at > now else "passed"


def cut(text: str, limit: int) -> str:
    """A text as one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def duration(span: timedelta) -> str:
    """A span of time in its two largest units."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((i for i, (amount, _) in enumerate(parts) if amount), 3)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount or unit == "s")
