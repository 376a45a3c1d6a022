"""What `tarry explain` says, whatever people and tools wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signals.box import Receipt
from signals.parking import Ask, Park
from signals.tokens import SignalKey
from tarry.cli.explanation import Explanation, drawn
from tarry.cli.turns import Turn
from tarry.client import WorkItem
from tarry.core.parked_note import parked_note
from tarry.core.waiting import TaskView

AT = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
NOW = AT + timedelta(minutes=3)
TASK = "c~ab/g1/t1.0"


def item(**changes: Any) -> WorkItem:
    facts = WorkItem(id=TASK, kind="tool call", conversation_id="c", state="sleeping", tool="run_ci", since=AT)
    return facts.model_copy(update=changes)


def parked(*keys: str, until: datetime | None = None, ask: str = "") -> Explanation:
    """A parked call that waits for these keys, explained with no worker up."""
    park = Park(
        since=AT, until=until, keys=tuple(SignalKey("app.ci", key) for key in keys), ask=Ask(text=ask) if ask else None
    )
    return Explanation(item(), note=parked_note(park, "run_ci", {"branch": "main"}))


def lines(explanation: Explanation) -> list[str]:
    return drawn(explanation, NOW).plain.splitlines()


def commands(explanation: Explanation) -> list[str]:
    return [line.strip() for line in lines(explanation) if line.strip().startswith(("temporal ", "tarry "))]


def test_parked_call_says_what_it_waits_for_and_what_wakes_it() -> None:
    explained = parked("done", until=AT + timedelta(hours=1), ask="Did it pass?")

    assert lines(explained)[0] == "run_ci waits for app.ci/done or its deadline"
    labels = [line.split()[0] for line in lines(explained)[1:7]]
    assert labels == ["id", "conversation", "since", "until", "asks", "arguments"]
    assert lines(explained)[4].endswith("(in 57 min 0 s)")
    assert commands(explained) == [
        f"""temporal workflow signal --workflow-id '{TASK}' --name app.ci --input '{{"key": "done", "value": {{}}}}'""",
        f"tarry signal '{TASK}' app.ci done '{{}}'",
        f"tarry abort '{TASK}'",
    ]


def test_of_many_keys_the_first_three_are_commands_and_the_others_are_counted() -> None:
    explained = parked(*(f"k{n}" for n in range(12)))

    assert lines(explained)[0].endswith("app.ci/k6 or 5 more keys")
    shown = [" ".join(command.split()[:2]) for command in commands(explained)]
    assert shown == [*["temporal workflow"] * 3, *["tarry signal"] * 3, "tarry abort"]
    assert len(explained.wake_commands) == 7


def test_key_too_long_for_lists_gets_its_command_from_a_worker() -> None:
    key = SignalKey("app.ci", "k" * 500)
    alone = parked(key.key)
    told = Explanation(
        item(),
        note=alone.note,
        task=TaskView(task_id=TASK, conversation_id="c", tool="run_ci", state="sleeping", keys=(key,)),
    )

    assert alone.keys == ()
    assert "Its keys are too long for lists: with a worker up this shows the command that wakes it." in lines(alone)
    assert key.key in told.wake_commands[0]


def test_key_that_no_terminal_shows_is_offered_as_json_alone() -> None:
    key = SignalKey("app.ci", "a\nb\x1b[2J")
    note = parked("x").note
    task = TaskView(task_id=TASK, conversation_id="c", tool="run_ci", state="sleeping", keys=(key,))

    shown = [" ".join(command.split()[:2]) for command in commands(Explanation(item(), note=note, task=task))]
    assert shown == ["temporal workflow", "tarry abort"]


def test_texts_of_others_move_no_cursor_and_break_no_line() -> None:
    hostile = "one\ntwo\x1b[2J\x9b1m"
    receipt = Receipt(delivery_id="d", signal="app.ci", key=hostile, answer="invalid", at=AT, reason=hostile)
    task = TaskView(task_id=TASK, conversation_id="c", tool="run_ci", state="sleeping", receipts=(receipt,))
    quiet = Explanation(item(tool=hostile), pending=(hostile,), note=parked("done", ask=hostile).note, task=task)

    assert all(line.isprintable() for line in lines(quiet))
    assert "  asks          one two[2J1m" in lines(quiet)


@pytest.mark.parametrize(
    ("explained", "why"),
    [
        (Explanation(item(state="running")), "runs"),
        (Explanation(item(state="held")), "is held until it is retried"),
        (Explanation(item(), closed="completed"), "is over: completed"),
        (Explanation(item(kind="generation", state="running", tool="")), "asks the model, or is about to"),
        (Explanation(item(kind="conversation", state="idle", tool="")), "is idle"),
        (Explanation(item(kind="generation", tool=""), parts=(item(), item(state="held"))), "waits for 2 of its calls"),
    ],
)
def test_anything_is_explained_in_a_few_words(explained: Explanation, why: str) -> None:
    assert explained.why() == why


def test_parent_waits_for_its_children_or_its_deadline() -> None:
    park = Park(since=AT, until=NOW + timedelta(hours=1))
    child = item(id=f"{TASK}/k.build", state="running")

    explained = Explanation(item(state="waiting"), note=parked_note(park, "run_ci", {}), parts=(child,))

    assert explained.why() == "waits for its children or its deadline"


def test_held_work_says_how_to_run_it_again() -> None:
    task = TaskView(task_id=TASK, conversation_id="c", tool="run_ci", state="held", held="workers were lost 5 times")
    own = Explanation(item(state="held"), task=task)
    below = Explanation(item(id="c~ab/g1", kind="generation", tool=""), parts=(item(state="held"), item()))

    assert own.why() == "is held until it is retried: workers were lost 5 times"
    assert commands(own) == [f"tarry retry '{TASK}'", f"tarry abort '{TASK}'"]
    assert commands(below) == [f"tarry retry '{TASK}'", "tarry abort 'c~ab/g1'"]


def test_what_is_over_is_not_offered_to_be_moved() -> None:
    assert commands(Explanation(item(), closed="terminated")) == []


def test_open_run_says_how_the_model_is_asked_again_for_a_turn() -> None:
    run = item(id="c~ab/g1", kind="generation", state="running", tool="")

    explained = Explanation(run, turns=(Turn(turn=2, event_id=19),))

    assert commands(explained) == [
        "temporal workflow reset --workflow-id 'c~ab/g1' --event-id 19 --reason 'ask turn 2 again'",
        "tarry abort 'c~ab/g1'",
    ]
    assert explained.facts()["turns"] == [{"turn": 2, "event_id": 19}]
