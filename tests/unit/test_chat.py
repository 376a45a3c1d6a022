"""What a chat shows of a growing conversation, and what it makes of a line in answer to a question."""

from __future__ import annotations

import asyncio
import getpass
import os
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from tarry.cli.chat_answers import NoValue, asked, value_of
from tarry.cli.chat_room import Room
from tarry.cli.chat_scroll import Scroll
from tarry.client import Conversation, Harness
from tarry.core.live import LiveMessage, LiveRun, LiveView, Question, Streamed, window
from tarry.core.messages import AssistantMessage, Usage
from tarry.core.transcript import Draft, Position, Transcript, assistant_draft, note_draft, user_draft
from tarry.core.waiting import SignalResult

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)


def view(*drafts: Draft, streamed: Streamed | None = None) -> LiveView:
    made = Transcript(start=Position(chain="n"))
    entries = [made.append(draft) for draft in drafts]
    message = LiveMessage(id="m", text=streamed) if streamed is not None else None
    return LiveView(
        conversation_id="c",
        nonce="n",
        end=made.end,
        pages=(),
        open_generation="c~n/g1",
        queued=(),
        runs=1,
        usage=Usage(),
        entries=window(entries),
        run=LiveRun(generation_id="c~n/g1", message=message),
    )


def question(*keys: str) -> Question:
    return Question(
        task_id="c~n/g1/t1.0",
        path=("c", "c~n/g1", "c~n/g1/t1.0"),
        tool="shell",
        question="Allow it?",
        keys=keys,
        since=NOW,
        digest="d",
        arguments="{}",
    )


USER = user_draft("go", NOW, 1)


@given(st.text("ab\n", max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_every_line_of_an_answer_is_shown_once_however_it_came(text: str, cuts: list[int]) -> None:
    scroll, shown = Scroll(), list[str]()
    scroll.take(view(USER))
    for cut in sorted(cuts):
        shown += [line.plain for line in scroll.take(view(USER, streamed=Streamed(text=text[:cut])))]
    shown += [line.plain for line in scroll.take(view(USER, assistant_draft(AssistantMessage(text=text), NOW, 1)))]

    assert "\n".join(shown).rstrip("\n") == text.rstrip("\n")


def test_answer_of_another_request_is_shown_whole_behind_what_was_cut_off() -> None:
    scroll = Scroll()
    scroll.take(view(USER, streamed=Streamed(text="one\ntw")))
    cut = assistant_draft(AssistantMessage(text="one\ntw", stop="aborted"), NOW, 1)
    whole = assistant_draft(AssistantMessage(text="one\ntwo"), NOW, 1)

    lines = scroll.take(view(USER, cut, note_draft("sent again", NOW, 1), whole))

    assert [line.plain for line in lines] == ["tw", "(cut off)", "sent again", "one", "two"]


def test_control_characters_of_a_model_never_reach_the_terminal() -> None:
    scroll = Scroll()
    scroll.take(view(USER))

    assert [line.plain for line in scroll.take(view(USER, streamed=Streamed(text="a\x1b[2Jb\n")))] == ["a[2Jb"]


def test_approval_takes_yes_or_no_with_a_reason() -> None:
    approval = question("approvals.decision/d")

    assert value_of(approval, "y", "ana") == {"allow": True, "by": "ana", "reason": ""}
    assert value_of(approval, "No  not now", "ana") == {"allow": False, "by": "ana", "reason": "not now"}
    assert value_of(approval, '{"allow": true}', "ana") == {"allow": True}


def test_other_questions_take_yes_no_or_json() -> None:
    other = question("desk.answer/colour")

    assert [value_of(other, line, "ana") for line in ("y", "no", '{"text": "blue"}', "7")] == [
        True,
        False,
        {"text": "blue"},
        7,
    ]
    with pytest.raises(NoValue, match='such as "blue"'):
        value_of(other, "blue", "ana")


def test_question_says_who_asks_and_what_may_be_answered() -> None:
    lines = [line.plain for line in asked(question("approvals.decision/d"))]

    assert lines == ["? shell asks  c~n/g1/t1.0", "  Allow it?", "  [y/n; /later]"]


async def test_answer_of_a_user_without_a_name_is_given_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object) -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)  # as in a container that runs under a number
    told, given = list[Text](), list[str]()

    class Signals:
        async def signal(self, *_: object, by: str) -> SignalResult:
            given.append(by)
            return SignalResult(answer="delivered")

    room = Room(cast("Harness", Signals()), cast("Conversation", None), told.append, "steer")
    room.view = view().model_copy(update={"questions": (question("approvals.decision/d"),)})
    await room.take("y")

    assert given == [f"user {os.getuid()}"]
    assert [line.plain for line in told] == ["  answer delivered"]


async def test_lines_that_are_typed_ahead_are_said_one_after_the_other() -> None:
    heard = list[str]()

    class Slow:
        async def submit(self, text: str, **_: object) -> SimpleNamespace:
            heard.append(f"{text}, sent")
            await asyncio.sleep(0)
            heard.append(f"{text}, taken")
            return SimpleNamespace(view="queued")

    room = Room(cast("Harness", None), cast("Conversation", Slow()), lambda _: None, "steer")

    await asyncio.gather(*(room.take(line) for line in ("one", "/follow two", "three")))

    assert heard == ["one, sent", "one, taken", "two, sent", "two, taken", "three, sent", "three, taken"]
