"""What transcripts, work and running things look like in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from signals.box import Receipt
from tarry.cli import render
from tarry.cli.live import going_on, result_line, scrolled
from tarry.cli.output import Output
from tarry.cli.work import with_conversation_states
from tarry.client import WakePlan, WorkItem
from tarry.core.live import LiveCall, LiveMessage, LiveRun, Streamed
from tarry.core.messages import AssistantMessage, ToolCallRequest, ToolMessage, Usage
from tarry.core.transcript import (
    Draft,
    Entry,
    Position,
    ToolFacts,
    assistant_draft,
    note_draft,
    place,
    result_draft,
    user_draft,
)

AT = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
LOCAL = AT.astimezone().strftime("%Y-%m-%d %H:%M:%S")
CALL = ToolCallRequest(call_id="c1", name="look_up", arguments='{\n  "name": "keys"\n}')


def placed(draft: Draft) -> Entry:
    return place(draft, Position())


def result(text: str, *, is_error: bool = False, facts: ToolFacts | None = None) -> Entry:
    message = ToolMessage(call_id="c1", name="look_up", text=text, is_error=is_error)
    return placed(result_draft(message, facts or ToolFacts(duration_ms=1_234), AT, 1))


def drawn(*what: RenderableType) -> list[str]:
    """The lines on a terminal that is wide enough."""
    out = StringIO()
    console = Console(file=out, width=200)
    for part in what:
        console.print(part, soft_wrap=True)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("entry", "lines"),
    [
        (placed(user_draft("one\ntwo", AT, 1)), [f"user · {LOCAL}", "  one", "  two", ""]),
        (
            placed(
                assistant_draft(AssistantMessage(text="it is", calls=(CALL,)), AT, 1, "p/m", Usage(input_tokens=1200))
            ),
            [f"assistant · {LOCAL} · p/m · 1,200 tokens in, 0 out", "  it is", '  → look_up { "name": "keys" }', ""],
        ),
        (
            placed(assistant_draft(AssistantMessage(text="half an", stop="aborted"), AT, 1)),
            [f"assistant · {LOCAL} · aborted", "  half an", ""],
        ),
        (result("third drawer"), [f"look_up · {LOCAL} · ok · 1.2 s", "  third drawer", ""]),
        (
            result("may have run", is_error=True, facts=ToolFacts(code="interrupted", duration_ms=90_000)),
            [f"look_up · {LOCAL} · interrupted · 1 min 30 s", "  may have run", ""],
        ),
        (placed(note_draft("asked again", AT, 1)), [f"note · {LOCAL}", "  asked again", ""]),
    ],
)
def test_entry_is_a_headline_and_its_text(entry: Entry, lines: list[str]) -> None:
    assert drawn(render.entry(entry)) == lines


def test_long_result_is_cut_and_says_how_much() -> None:
    lines = drawn(render.entry(result("\n".join(f"line {n}" for n in range(30)))))

    assert lines[1:21] == [f"  line {n}" for n in range(20)]
    assert lines[21:] == ["  … 10 more lines, see --json", ""]


def test_text_is_no_markup_and_moves_no_cursor() -> None:
    hostile = "[red]x[/red] \x1b[2J\x1b]0;title\x07\r\x9b1mgone"

    assert drawn(render.entry(placed(user_draft(hostile, AT, 1))))[1] == "  [red]x[/red] [2J]0;title1mgone"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert render.duration(timedelta(seconds=seconds)) == text


def item(id: str, kind: str, state: str = "", tool: str = "") -> WorkItem:
    return WorkItem(id=id, kind=kind, conversation_id=id.split("~")[0], state=state, tool=tool, since=AT)


def test_work_is_a_table_whose_ids_are_whole() -> None:
    long = "conv-" + "0123456789" * 12
    items = [item(f"{long}~n/g1/t1.0", "tool call", "held", "look_up"), item(long, "conversation", "busy")]

    lines = drawn(render.work(items, AT + timedelta(minutes=5)))

    assert [line.split() for line in lines] == [
        ["STATE", "KIND", "TOOL", "AGE", "ID"],
        ["held", "tool", "call", "look_up", "5", "min", "0", "s", f"{long}~n/g1/t1.0"],
        ["busy", "conversation", "-", "5", "min", "0", "s", long],
    ]


def test_a_very_long_cell_takes_the_room_of_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    names = tuple(f"app.ok/{'n' * 1_000}{number}" for number in range(8))
    waiting = item("c~n/g1/t1.0", "tool call", "sleeping").model_copy(update={"waiting_for": names})

    Output(as_json=False).table(render.work([waiting, item("c", "conversation", "idle")], AT))

    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == [
        "sleeping",
        "tool",
        "call",
        "-",
        "0.0",
        "s",
        *", ".join(names).split(),
        "-",
        "-",
        "c~n/g1/t1.0",
    ]
    assert second.split() == ["idle", "conversation", "-", "0.0", "s", "-", "-", "-", "c"]


def test_list_shows_what_is_waited_for_only_when_something_is() -> None:
    waiting = item("c~n/g1/t1.0", "tool call", "sleeping", "deploy").model_copy(
        update={
            "waiting_for": ("app.ok/a", "+3"),
            "until": AT + timedelta(hours=1),
            "question": "Really?\n" + "x" * 100,
        }
    )

    lines = drawn(render.work([waiting, item("c", "conversation", "busy")], AT))

    assert lines[0].split() == ["STATE", "KIND", "TOOL", "AGE", "WAITS", "FOR", "UNTIL", "ASKS", "ID"]
    assert "app.ok/a, +3  in 1 h  Really? xxx" in lines[1]
    assert lines[1].split()[-2].endswith("x…")
    assert lines[2].split() == ["busy", "conversation", "-", "0.0", "s", "-", "-", "-", "c"]


def test_list_shows_the_tools_on_the_way_to_a_question() -> None:
    caller, nested, inner = "c~n/g1/t1.0", "c~n/g1/t1.0/k.a", "sub-1~m/g2/t1.0"
    items = [
        item(inner, "tool call", "sleeping", "ask").model_copy(
            update={"question": "Really?", "path": ("c", "c~n/g1", caller, nested, "sub-1", "sub-1~m/g2", inner)}
        ),
        item(caller, "tool call", "waiting", "delegate"),
        item("sub-1", "conversation", "busy"),
    ]

    lines = drawn(render.work(items, AT))

    assert lines[0].split()[-3:] == ["ASKS", "PATH", "ID"]
    assert lines[1].endswith(f"Really?  c › delegate › k.a › ask  {inner}")
    assert lines[2].split()[-2:] == ["-", caller]


def test_list_shows_subagents_under_their_paths_and_who_of_them_asks() -> None:
    inner = "agent-1~m/g2/t1.0"
    path = ("c", "c~n/g1", "c~n/g1/t1.0", "agent-1", "agent-1~m/g2", inner)
    items = [
        item(inner, "tool call", "sleeping", "ask").model_copy(update={"question": "Really?", "path": path}),
        item("agent-1", "conversation", "busy").model_copy(update={"agent": "/root/review"}),
    ]

    lines = drawn(render.work(items, AT))

    assert lines[0].split()[-4:] == ["ASKS", "PATH", "AGENT", "ID"]
    assert lines[1].endswith(f"Really?  c › /root/review › ask  -             {inner}")
    assert lines[2].split()[-2:] == ["/root/review", "agent-1"]


def test_receipt_is_one_line() -> None:
    kept = Receipt(delivery_id="d", signal="app.ok", key="a", answer="invalid", at=AT, reason="it is\nwrong")

    assert drawn(render.receipt(kept)) == [f"invalid: it is wrong (app.ok/a, {LOCAL})"]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (WakePlan(active=True, why="backlog"), "active: tasks wait for a worker"),
        (WakePlan(active=True, why="running"), "active: work runs"),
        (WakePlan(active=True, why="deadline"), "active: a deadline has passed"),
        (WakePlan(active=False, at=AT), f"idle until {LOCAL} (in 5 min 0 s)"),
        (WakePlan(active=False), "idle, and nothing is due"),
    ],
)
def test_wake_is_one_line(plan: WakePlan, words: str) -> None:
    assert render.wake(plan, AT - timedelta(minutes=5)) == words


def test_conversation_is_busy_while_one_of_its_runs_is_open() -> None:
    items = [item("a~n/g1", "generation", "running"), item("a", "conversation"), item("b", "conversation")]

    assert [found.state for found in with_conversation_states(items)] == ["running", "busy", "idle"]


def test_what_is_over_scrolls_by_without_the_answer() -> None:
    entries = [
        placed(user_draft("hello", AT, 1)),
        placed(assistant_draft(AssistantMessage(text="let me see", calls=(CALL,)), AT, 1)),
        result("first line\nthird drawer\n"),
        placed(note_draft("asked again", AT, 1)),
        placed(assistant_draft(AssistantMessage(text="cut", stop="aborted"), AT, 1)),
        placed(assistant_draft(AssistantMessage(text="the answer"), AT, 1)),
    ]

    assert drawn(*(line for entry in entries for line in scrolled(entry))) == [
        "let me see",
        '→ look_up { "name": "keys" }',
        "✓ look_up 1.2 s  third drawer",
        "asked again",
        "cut",
    ]


def test_what_goes_on_is_the_tail_of_the_stream_and_the_open_calls() -> None:
    call = LiveCall(
        task_id="t",
        slot=0,
        call_id="c",
        tool="look_up",
        label="look_up(name='keys')",
        status="running",
        since=AT,
        output=Streamed(text="opening\nlooking\x1b[2J"),
    )
    said = Streamed(text="\n".join(f"line {n}" for n in range(30)))
    run = LiveRun(generation_id="c~n/g1", message=LiveMessage(id="m", text=said), calls=(call,))

    lines = drawn(*going_on(run, AT + timedelta(seconds=3)))

    assert lines == [*(f"line {n}" for n in range(20, 30)), "… look_up(name='keys') 3.0 s  looking[2J"]


def test_call_that_left_only_a_remark_says_why_and_not_where_the_remark_ends() -> None:
    stopped = ToolMessage(
        call_id="c", name="look_up", text="<harness>\n[error] Tool look_up was stopped.\n</harness>", is_error=True
    )
    entry = placed(result_draft(stopped, ToolFacts(duration_ms=1_500), AT, 1))

    assert result_line(stopped, entry).plain == "✗ look_up 1.5 s  [error] Tool look_up was stopped."


def test_name_that_a_model_made_up_for_a_tool_brings_no_control_characters() -> None:
    unknown = ToolMessage(call_id="c", name="look\x1b[2J", text="there is no such tool", is_error=True)
    entry = placed(result_draft(unknown, ToolFacts(), AT, 1))

    assert result_line(unknown, entry).plain == "✗ look[2J 0.0 s  there is no such tool"
