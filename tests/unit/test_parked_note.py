"""What lists and the Web UI say of a parked task fits, whatever its keys and its question are (spec §9.1, §9.2)."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signals.data import json_size
from signals.parking import Ask, Park
from signals.tokens import SignalKey
from tarry.core.parked_note import MAX_ITEM_BYTES, MAX_ITEMS, labels, parked_details, parked_note
from tarry.core.waiting import ParkedNote

SINCE = datetime(2030, 1, 1, 12, tzinfo=UTC)
MAX_NOTE_BYTES = 2048


def keys(*names: str) -> tuple[SignalKey, ...]:
    return tuple(SignalKey("app.answer", name) for name in names)


def parked(*names: str, ask: Ask | None = None, until: datetime | None = None) -> Park:
    return Park(since=SINCE, until=until, keys=keys(*names), ask=ask)


def test_short_keys_are_shown_as_they_are() -> None:
    assert labels(keys("done", "a/b", "é ☃", " ")) == [f"app.answer/{key}" for key in ("done", "a/b", "é ☃", " ")]


@pytest.mark.parametrize("key", ["a\nb", "\x00", "\u202e", "k" * 110, "é" * 60, "x" * 8_000])
def test_long_and_unprintable_keys_are_shown_by_a_hash_of_their_own(key: str) -> None:
    (label,), (other,) = labels(keys(key)), labels(keys(f"{key}!"))
    assert label.startswith("app.answer/#")
    assert len(label.encode()) <= MAX_ITEM_BYTES
    assert label != other


def test_long_names_are_cut_and_still_name_their_key() -> None:
    for name in ("n" * 200, "é" * 200):
        (label,) = labels([SignalKey(name, "done")])
        assert len(label.encode()) <= MAX_ITEM_BYTES
        assert label.rpartition("/")[2].startswith("#")


def test_of_many_keys_the_first_are_shown_and_the_others_counted() -> None:
    eight, nine = [str(n) for n in range(8)], [str(n) for n in range(9)]
    assert labels(keys(*eight)) == [f"app.answer/{n}" for n in range(8)]
    assert labels(keys(*nine)) == [*(f"app.answer/{n}" for n in range(7)), "+2"]
    note = parked_note(parked(*nine), "waits", {})
    assert (note.keys, note.more_keys) == (tuple(f"app.answer/{n}" for n in range(7)), 2)


LARGE: dict[str, tuple[Park, dict[str, Any]]] = {
    "64 keys of 100 letters": (parked(*(f"{n:03}" + "k" * 100 for n in range(64))), {}),
    "keys of quotes": (parked(*('"' * (90 + n) for n in range(8))), {}),
    "a long question": (parked("done", ask=Ask(text="why? " * 1_000, for_whom="ops " * 1_000)), {}),
    "a question of control characters": (parked("done", ask=Ask(text="\x01" * 5_000, for_whom="\x01" * 500)), {}),
    "a question of other letters": (parked("done", ask=Ask(text="é☃😀" * 500)), {}),
    "long arguments": (parked("done"), {"query": "x" * 100_000}),
    "arguments of quotes": (parked("done"), {"query": '"\\' * 10_000}),
    "all at once": (
        parked(
            *('"' * (90 + n) for n in range(64)),
            ask=Ask(text='"\n\x01' * 5_000, for_whom='"' * 500),
            until=SINCE + timedelta(days=3),
        ),
        {"query": '"\\' * 10_000},
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_note_takes_at_most_two_kib_as_it_crosses_the_wire(case: str) -> None:
    park, arguments = LARGE[case]
    note = parked_note(park, "t" * 64, arguments)
    assert json_size(note.model_dump(mode="json")) <= MAX_NOTE_BYTES
    assert ParkedNote.model_validate_json(note.model_dump_json()) == note
    assert len(note.keys) + note.more_keys == len(park.keys)
    assert len(labels(park.keys)) <= MAX_ITEMS


def test_note_holds_what_a_person_needs() -> None:
    until = SINCE + timedelta(hours=4)
    park = parked("done", ask=Ask(text="Deploy?", for_whom="ops"), until=until)
    note = parked_note(park, "deploy", {"ref": "main", "at": 5})
    assert (note.since, note.until, note.keys, note.more_keys) == (SINCE, until, ("app.answer/done",), 0)
    assert (note.text, note.for_whom, note.tool, note.arguments) == (
        "Deploy?",
        "ops",
        "deploy",
        '{"at":5,"ref":"main"}',
    )
    assert note.digest == parked_note(park, "deploy", {"at": 5, "ref": "main"}).digest
    assert note.digest != parked_note(park, "deploy", {"at": 6, "ref": "main"}).digest


def details(park: Park) -> str:
    return parked_details("conv~n/g1/t1.0", park, parked_note(park, "waits", {}))


def test_details_say_since_until_for_whom_and_what_wakes_it() -> None:
    park = parked("done", "it's", ask=Ask(text="Deploy?\nReally?", for_whom="ops"), until=SINCE + timedelta(hours=4))
    assert details(park).splitlines() == [
        "**Waiting for ops** since 2030-01-01 12:00:00 UTC, until 2030-01-01 16:00:00 UTC.",
        "",
        "> Deploy?",
        "> Really?",
        "",
        "For: `app.answer/done`, `app.answer/it's`. The first of them wakes it:",
        "",
        "```",
        "temporal workflow signal --workflow-id 'conv~n/g1/t1.0' --name app.answer "
        '--input \'{"key": "done", "value": {}}\'',
        "```",
    ]


def test_details_of_a_wait_for_time_alone_name_no_key() -> None:
    assert details(parked(until=SINCE)) == ("**Waiting** since 2030-01-01 12:00:00 UTC, until 2030-01-01 12:00:00 UTC.")
    assert details(parked("done")).startswith("**Waiting** since 2030-01-01 12:00:00 UTC, without a deadline.")


@pytest.mark.parametrize("key", ["it's", "a\nb", "```\n# x", "$(id)", "😀", "\u202e"])
def test_command_in_the_details_is_one_line_whatever_the_key(key: str) -> None:
    before, fence, rest = details(parked(key)).partition("```\n")
    command, end, after = rest.partition("\n```")
    assert (fence, end, after) == ("```\n", "\n```", "")
    assert len(shlex.split(command)) == 9
    assert "\n" not in command
    assert before.count("`") >= 2


@pytest.mark.parametrize("text", ["a\r# b", "a\u2028# b", "a\x0b# b", "a\n\n# b"])
def test_question_stays_a_quotation_in_the_details_whatever_its_line_ends(text: str) -> None:
    quoted = [line for line in details(parked(ask=Ask(text=text), until=SINCE)).splitlines()[2:] if line]
    assert [line for line in quoted if not line.startswith(">")] == []
