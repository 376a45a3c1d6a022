"""The prompt as it is told: what a change needs, where it stands, and what replaying it gives (spec §13)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.context import plan, request_context, shown
from tarry.core.messages import AssistantMessage, SystemMessage, ToolCallRequest, ToolMessage, ToolSpec
from tarry.core.prompt import Prompt, PromptPatch, SectionPatch, ToolPatch, changes, told
from tarry.core.transcript import (
    ToolFacts,
    Transcript,
    assistant_draft,
    compaction_draft,
    note_draft,
    reset_draft,
    result_draft,
    system_draft,
    user_draft,
)
from tarry.models import ModelRequest
from tarry.testing import check_request

AT = datetime(2026, 3, 1, tzinfo=UTC)


def prompt(tools: str = "", **sections: str) -> Prompt:
    """A prompt; each letter of `tools` is a tool, declared by its case."""
    return Prompt(
        sections={key: section(key, text) for key, text in sections.items()},
        tools={letter.lower(): letter for letter in tools},
    )


def section(key: str, text: str | None) -> SectionPatch:
    return SectionPatch(key=key, text=text)


def patch(*sections: tuple[str, str | None], tools: Sequence[tuple[str, str | None]] = ()) -> PromptPatch:
    return PromptPatch(
        sections=tuple(section(*one) for one in sections),
        tools=tuple(ToolPatch(name=name, digest=mark) for name, mark in tools),
    )


CHANGES: dict[str, tuple[Prompt, Prompt, list[PromptPatch]]] = {
    "nothing changed": (prompt("ab", x="1"), prompt("ab", x="1"), []),
    "only what changed is told": (prompt(x="1", y="2"), prompt(x="1", y="3"), [patch(("y", "3"))]),
    "a new section comes last": (prompt(x="1"), prompt(x="1", y="2"), [patch(("y", "2"))]),
    "a section that is gone is null": (prompt(x="1", y="2"), prompt(y="2"), [patch(("x", None))]),
    "removals come before the rest": (
        prompt(x="1", y="2"),
        prompt(y="3", z="4"),
        [patch(("x", None), ("y", "3"), ("z", "4"))],
    ),
    "another order takes all away and tells all again": (
        prompt("a", x="1", y="2"),
        prompt("b", y="2", x="1"),
        [patch(("x", None), ("y", None)), patch(("y", "2"), ("x", "1"), tools=[("a", None), ("b", "b")])],
    ),
    "a new section that is not the last is another order": (
        prompt(x="1"),
        prompt(w="0", x="1"),
        [patch(("x", None)), patch(("w", "0"), ("x", "1"))],
    ),
    "tools that are gone come before new ones": (
        prompt("ab"),
        prompt("bc"),
        [patch(tools=[("a", None), ("c", "c")])],
    ),
    "a tool that is declared differently is told": (prompt("ab"), prompt("aB"), [patch(tools=[("b", "B")])]),
    "the order of tools is not told": (prompt("ab"), prompt("ba"), []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_least_is_told_that_makes_the_change(case: str) -> None:
    before, after, expected = CHANGES[case]

    assert list(changes(before, after)) == expected


def test_change_of_a_declaration_changes_its_digest() -> None:
    tool = ToolSpec(name="look", description="looks", parameters={"type": "object"})
    other = tool.model_copy(update={"description": "looks harder"})

    first, same, changed = (Prompt.of([], [one]) for one in (tool, tool.model_copy(), other))

    assert first == same != changed


TOLD: dict[str, tuple[Prompt, PromptPatch, str]] = {
    "sections with their tags": (
        prompt(x="1"),
        patch(("x", "2"), ("y", "3")),
        "From here on these parts of your instructions count, in place of earlier ones of the same name.\n\n"
        "<x>\n2\n</x>\n\n<y>\n3\n</y>",
    ),
    "one line for what is gone": (
        prompt("ab", x="1"),
        patch(("x", None), tools=[("a", None)]),
        "No longer part of your instructions: x.\nTools that are gone, not to be called: a.",
    ),
    "new tools and changed ones apart": (
        prompt("ab"),
        patch(tools=[("a", "A"), ("c", "c")]),
        "Tools that are declared differently now: a.\nNew tools: c.",
    ),
    "nothing": (prompt(), patch(("x", None)), ""),
}


@pytest.mark.parametrize("case", TOLD)
def test_change_reads_as(case: str) -> None:
    before, change, expected = TOLD[case]

    assert told(before, change) == expected


@dataclass
class Telling:
    """A conversation that tells what it is to tell, as the harness does."""

    transcript: Transcript = field(default_factory=Transcript)

    def say(self, text: str = "hi") -> None:
        self.transcript.append(user_draft(text, AT, 1))

    def answer(self, wanted: Prompt, message: AssistantMessage | None = None) -> list[PromptPatch]:
        """A request for the newest input, and its answer."""
        patches = plan(self.transcript.tail, wanted)
        for one in patches:
            self.transcript.append(system_draft(one, AT, 1))
        self.transcript.append(assistant_draft(message or AssistantMessage(text="fine"), AT, 1))
        return list(patches)

    def turn(self, wanted: Prompt) -> list[PromptPatch]:
        self.say()
        return self.answer(wanted)

    def compact(self, back: int) -> None:
        """A summary that keeps the newest `back` entries."""
        end = self.transcript.end
        kept = self.transcript.tail[-back].index if 0 < back <= len(self.transcript.tail) else end.index
        head = end.model_copy(update={"index": kept})
        self.transcript.append(compaction_draft("So far: much.", AT, 1, head))

    def reset(self) -> None:
        self.transcript.append(reset_draft(AT, 1, self.transcript.end))

    def request(self) -> ModelRequest:
        context = request_context(self.transcript.tail)
        return ModelRequest(messages=context.messages, instructions=context.instructions, session_id="c")

    @property
    def systems(self) -> list[str]:
        return [message.text for message in self.request().messages if isinstance(message, SystemMessage)]


def test_first_request_tells_everything_at_its_front() -> None:
    telling = Telling()

    [first] = telling.turn(prompt("a", x="1", y="2"))

    assert first.baseline
    assert telling.request().instructions == "<x>\n1\n</x>\n\n<y>\n2\n</y>"
    assert telling.systems == []


def test_conversation_from_before_there_were_prompts_gets_its_baseline_at_the_front() -> None:
    telling = Telling()
    telling.say()
    telling.transcript.append(assistant_draft(AssistantMessage(text="old"), AT, 1))
    before = telling.request()

    telling.turn(prompt(x="1"))

    after = telling.request()
    assert after.instructions == "<x>\n1\n</x>"
    assert after.messages[: len(before.messages)] == before.messages
    assert telling.systems == []


def test_change_before_the_first_response_is_part_of_the_front() -> None:
    telling = Telling()
    telling.say()
    telling.answer(prompt(x="1"), AssistantMessage())  # an empty answer, which no provider is sent back
    telling.answer(prompt(x="2"))

    assert telling.request().instructions == "<x>\n2\n</x>"
    assert telling.systems == []


def test_nothing_to_tell_leaves_no_entry() -> None:
    telling = Telling()

    assert telling.turn(prompt()) == []
    assert telling.turn(prompt()) == []


def test_head_is_followed_by_a_whole_baseline_even_when_nothing_changed() -> None:
    telling = Telling()
    telling.turn(prompt(x="1"))
    telling.turn(prompt(x="2"))
    telling.compact(back=3)

    [again] = telling.turn(prompt(x="2"))
    nothing = telling.turn(prompt(x="2"))

    assert (again.baseline, nothing) == (True, [])
    assert telling.request().instructions == "<x>\n2\n</x>"
    assert telling.systems == []  # what was said of the prompt before the baseline counts no more


def test_prompt_that_became_empty_takes_back_what_a_head_kept() -> None:
    telling = Telling()
    telling.turn(prompt(x="1"))
    telling.compact(back=2)

    [again] = telling.turn(prompt())

    assert (again, telling.request().instructions) == (PromptPatch(baseline=True), "")


def test_front_and_turns_of_the_past_stay_as_they_are_to_the_byte() -> None:
    telling = Telling()
    earlier: list[tuple[str, str]] = []
    for number in range(40):
        telling.turn(prompt("ab" if number < 20 else "b", x="1", y=str(number // 10)))
        request = telling.request()
        earlier.append((request.instructions, "".join(one.model_dump_json() for one in request.messages)))

    assert {front for front, _ in earlier} == {"<x>\n1\n</x>\n\n<y>\n0\n</y>"}
    assert all(later.startswith(one) for (_, one), (_, later) in itertools.pairwise(earlier))
    assert len(telling.systems) == 3


texts = st.sampled_from(["one", "two", " spaced ", "größer 🦊"])
prompts = st.builds(
    lambda pairs, tools: prompt("".join(tools), **dict(pairs)),
    st.lists(st.tuples(st.sampled_from("uvwxyz"), texts), max_size=5),
    st.lists(st.sampled_from("abcABC"), max_size=4, unique_by=str.lower),
)
steps = st.one_of(
    st.tuples(st.just("turn"), prompts),
    st.tuples(st.just("failed"), prompts),
    st.tuples(st.just("tools"), prompts),
    st.tuples(st.just("empty"), prompts),
    st.tuples(st.just("compact"), st.integers(0, 8)),
    st.tuples(st.sampled_from(["reset", "note", "fork"]), st.none()),
)


def play(telling: Telling, kind: str, value: object) -> None:
    """One thing that happens to a conversation."""
    transcript = telling.transcript
    if kind == "compact" and isinstance(value, int):
        telling.compact(value)
    elif kind == "reset":
        telling.reset()
    elif kind == "note":
        transcript.append(note_draft("for people", AT, 1))
    elif kind == "fork":  # shares what came before, and goes on alone
        telling.transcript = Transcript(tail=list(transcript.tail))
    elif isinstance(value, Prompt):
        telling.say()
        if kind == "tools":
            call = ToolCallRequest(call_id="a", name="a", arguments="{}")
            telling.answer(value, AssistantMessage(calls=(call,), stop="tool_use"))
            result = ToolMessage(call_id="a", name="a", text="seen")
            transcript.append(result_draft(result, ToolFacts(), AT, 1))
            telling.answer(value)
        elif kind in ("turn", "empty"):
            telling.answer(value, AssistantMessage(text="fine" if kind == "turn" else ""))


@given(st.lists(steps, max_size=20), prompts)
def test_whatever_happened_the_next_request_tells_what_is_meant_and_passes_a_strict_provider(
    happened: list[tuple[str, object]], wanted: Prompt
) -> None:
    telling = Telling()
    for kind, value in happened:
        play(telling, kind, value)

    telling.say()
    for one in plan(telling.transcript.tail, wanted):
        telling.transcript.append(system_draft(one, AT, 1))

    known = shown(telling.transcript.tail)
    assert list(known.sections.items()) == list(wanted.sections.items())
    assert known.tools == wanted.tools
    check_request(telling.request())
    assert plan(telling.transcript.tail, wanted) == ()


@given(st.lists(steps, max_size=20), prompts)
def test_request_that_failed_is_made_again_to_the_byte(happened: list[tuple[str, object]], wanted: Prompt) -> None:
    telling = Telling()
    for kind, value in happened:
        play(telling, kind, value)
    telling.say()
    first = plan(telling.transcript.tail, wanted)

    telling.transcript.append(note_draft("The request failed and is sent again.", AT, 1))
    telling.transcript.append(assistant_draft(AssistantMessage(text="I was", stop="aborted"), AT, 1))

    assert plan(telling.transcript.tail, wanted) == first


@given(prompts, prompts)
def test_change_is_at_most_two_patches_and_replays_to_what_is_meant(before: Prompt, after: Prompt) -> None:
    patches = changes(before, after)
    replayed = before.model_copy(deep=True)
    for one in patches:
        replayed.apply(one)

    assert len(patches) <= 2
    assert (list(replayed.sections.items()), replayed.tools) == (list(after.sections.items()), after.tools)
