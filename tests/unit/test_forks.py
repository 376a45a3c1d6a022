"""Forks of transcripts: what they share, where they end, how their chains part, and what a model is sent (spec §16)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tarry.core.agent import Agent, AgentChange
from tarry.core.commits import CommitInput
from tarry.core.context import model_messages, request_context
from tarry.core.conversation import ConversationState
from tarry.core.forks import ForkSource, Origin, Shared, forked
from tarry.core.messages import AssistantMessage, Message, ToolCallRequest, ToolMessage, UserMessage
from tarry.core.prompt import PromptPatch, SectionPatch
from tarry.core.protocol import SubmitInput
from tarry.core.transcript import (
    Draft,
    Entry,
    NoSuchPosition,
    Position,
    ToolFacts,
    Transcript,
    assistant_draft,
    compaction_draft,
    note_draft,
    place,
    reset_draft,
    result_draft,
    system_draft,
    user_draft,
)
from tarry.models import ModelRequest
from tarry.testing import check_request
from tests.support.transcripts import Store

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def state_with(*texts: str) -> ConversationState:
    state = ConversationState.born("parent")
    for text in texts:
        state.transcript.append(user_draft(text, AT, 1))
    return state


def fork_of(state: ConversationState, at: int | None = None, agent: Agent | None = None) -> ConversationState:
    """A fork of a conversation whose entries are all in its tail."""
    source = ForkSource.of(state)
    upto = state.transcript.end.index if at is None else at + 1
    shared = Shared([], state.transcript.tail[:upto])
    return forked(source, None, shared, Origin("parent", at, agent), "fork")


def test_a_fork_begins_with_entries_and_choices_and_nothing_else_of_its_parent() -> None:
    parent = state_with("a", "b")
    parent.inbox.admit(SubmitInput(content="queued", request_id="r"), AT)
    parent.commits.take(CommitInput(key="k"), AT, keeps_notes=False)
    parent.refuse("no")
    parent.runs = 7

    fork = fork_of(parent, 0)

    assert fork.parent is not None
    assert (fork.parent.conversation_id, fork.parent.nonce, fork.parent.at) == ("parent", "parent", 0)
    assert fork.transcript.tail == parent.transcript.tail[:1]
    assert fork.model_copy(update={"parent": None, "transcript": Transcript(start=Position(chain="fork"))}) == (
        ConversationState.born("fork").model_copy(update={"runs": 7})
    )


def test_the_first_own_entry_has_another_chain_and_shared_ones_keep_theirs() -> None:
    parent = state_with("a", "b")
    one, other = (fork_of(parent, 0).transcript for _ in range(2))
    assert one.branch is not None
    other.branch = one.branch.model_copy(update={"nonce": "another fork"})

    same = [transcript.append(user_draft("b", AT, 1)) for transcript in (one, other)]

    assert one.tail[0] == other.tail[0] == parent.transcript.tail[0]
    assert len({entry.chain for entry in (*same, parent.transcript.tail[1])}) == 3
    assert {entry.prev for entry in same} == {parent.transcript.tail[0].chain}


def test_chains_of_conversations_that_are_no_forks_are_as_they_were() -> None:
    draft = user_draft("a", AT, 1)

    assert Transcript().append(draft).chain == place(draft, Position()).chain
    assert place(draft, Position()).chain != place(draft, Position(), "n").chain


def test_a_head_after_the_place_does_not_count_in_a_page_that_is_cut() -> None:
    store, transcript = Store(), Transcript()
    for text in ("a", "b"):
        transcript.append(user_draft(text, AT, 1))
    early = compaction_draft("early", AT, 1, transcript.tail[0].position)
    late = compaction_draft("late", AT, 1, transcript.tail[1].position)
    for draft in (early, note_draft("n", AT, 1), late):
        transcript.append(draft)
    store.seal(transcript, 5)

    starts = [store.shared(transcript, at).transcript("n").context_start for at in range(5)]

    assert [start and start.index for start in starts] == [None, None, 1, 1, 2]
    assert {page.ref for at in range(5) for page in store.shared(transcript, at).pages} == {"page 0"}


def test_pages_that_do_not_follow_each_other_are_refused() -> None:
    transcript = state_with("a", "b", "c").transcript

    with pytest.raises(NoSuchPosition):
        Shared([], [transcript.tail[0], transcript.tail[2]]).transcript("n")
    with pytest.raises(NoSuchPosition):
        Shared([], transcript.tail[1:]).transcript("n")


def test_choices_are_those_of_the_entry_and_without_one_those_of_now() -> None:
    parent = state_with("a")
    parent.configure(AgentChange(model="early"))
    parent.transcript.append(user_draft("b", AT, 1))
    parent.configure(AgentChange(model="late"))

    models = {at: fork_of(parent, at).choices.agent.model for at in (0, 1, None)}

    assert models == {0: None, 1: "early", None: "late"}
    other = fork_of(parent, 1, Agent(model="other"))
    assert other.choices.agent.model == "other"
    assert other.choices.as_of(0).model is None
    assert fork_of(other, 0).choices.agent.model is None
    assert fork_of(other, 1).choices.agent.model == "other"
    assert other.choices.number == 2


def test_choices_that_an_open_run_took_up_count_from_that_entry() -> None:
    parent = state_with("a")
    parent.inbox.admit(SubmitInput(content="go", request_id="r"), AT)
    parent.open_next(AT, "parent")
    parent.configure(AgentChange(model="new"))
    source = ForkSource.of(parent)
    log = source.choices.model_copy()
    log.place({1: 5}, source.began_with, 8)

    assert [log.forked(at, None).agent.model for at in (4, 5)] == [None, "new"]
    assert source.choices.log == parent.choices.log, "the parent's own are untouched"


@pytest.mark.parametrize(
    ("asked", "known", "is_of"),
    [
        (Origin("p", 3), Origin("p", 3), True),
        (Origin("p"), Origin("p", 3), True),
        (Origin("p", 4), Origin("p", 3), False),
        (Origin("q", 3), Origin("p", 3), False),
        (Origin("p", 3, Agent(model="m")), Origin("p", 3), False),
        (Origin("p", 3, Agent(model="m")), Origin("p", 3, Agent(model="m")), True),
    ],
)
def test_a_fork_is_known_again_by_parent_place_and_choices(asked: Origin, known: Origin, is_of: bool) -> None:
    assert asked.is_of(known.parent("n", 3), "n") is is_of
    assert not asked.is_of(known.parent("another conversation under that id", 3), "n")


ids = st.sampled_from(["a", "b", ""])
requested = st.builds(ToolCallRequest, call_id=ids, name=st.just("t"), arguments=st.just("{}"))
messages = st.one_of(
    st.builds(UserMessage, text=st.sampled_from(["hi", " "])),
    st.builds(AssistantMessage, text=st.just("so"), calls=st.lists(requested, max_size=3).map(tuple)),
    st.builds(ToolMessage, call_id=ids, name=st.just("t"), text=st.just("done")),
)
sections = st.builds(SectionPatch, key=st.just("s"), text=st.sampled_from(["one", "two", None]))
steps = st.one_of(
    st.tuples(st.just("say"), messages),
    st.tuples(st.just("told"), st.builds(PromptPatch, sections=st.tuples(sections), baseline=st.booleans())),
    st.tuples(st.sampled_from(["compact", "seal", "fold", "fork"]), st.integers(0, 6)),
    st.tuples(st.just("reset"), st.sampled_from(["", "handed over"])),
    st.tuples(st.just("note"), st.none()),
)


def draft_for(transcript: Transcript, kind: str, value: object, run: int) -> Draft:
    end = transcript.end
    match value:
        case UserMessage():
            return user_draft(value.text, AT, run)
        case AssistantMessage():
            return assistant_draft(value, AT, run)
        case ToolMessage():
            return result_draft(value, ToolFacts(), AT, run)
        case PromptPatch():
            return system_draft(value, AT, run)
        case str():
            return reset_draft(AT, run, end, value)
        case int() if transcript.tail:  # a compaction that keeps what comes after one of the newest entries
            kept = transcript.tail[max(len(transcript.tail) - 1 - value, 0)]
            return compaction_draft("in short", AT, run, Position(index=kept.index, chain=kept.prev))
        case _:
            return note_draft("for people", AT, run)


@dataclass
class World:
    """A timeline that is now and then left for a fork of it, and what it should hold."""

    store: Store = field(default_factory=Store)
    transcript: Transcript = field(default_factory=lambda: Transcript(start=Position(chain="root")))
    plain: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    forks: int = 0

    def play(self, kind: str, value: object) -> None:
        if kind == "seal" and isinstance(value, int):
            self.store.seal(self.transcript, min(value, len(self.transcript.tail)))
        elif kind == "fold" and isinstance(value, int):
            self.store.fold(self.transcript, value)
        elif kind == "fork" and isinstance(value, int):
            self.fork(value)
        else:
            draft = draft_for(self.transcript, kind, value, 1)
            self.plain.append(self.transcript.append(draft))

    def fork(self, back: int) -> None:
        """Go on in a fork at one of the newest entries."""
        if not self.plain:
            return
        at = max(len(self.plain) - 1 - back, 0)
        self.forks += 1
        self.transcript = self.store.shared(self.transcript, at).transcript(f"fork {self.forks}")
        self.left += self.plain[at + 1 :]
        self.plain = self.plain[: at + 1]


@given(st.lists(steps, max_size=30))
@example([("reset", ""), ("fork", 0), ("note", None), ("fork", 0), ("seal", 1)])
def test_whatever_is_said_sealed_folded_and_forked_a_fork_holds_what_came_before_it(
    happened: list[tuple[str, object]],
) -> None:
    world = World()
    for kind, value in happened:
        world.play(kind, value)

    assert world.store.all(world.transcript) == world.plain
    assert not {entry.chain for entry in world.left} & {entry.chain for entry in world.plain}
    heads = [entry.head for entry in world.plain if entry.head is not None]
    assert world.transcript.context_start == (heads[-1] if heads else None)
    for one, two in zip(world.plain, world.plain[1:], strict=False):
        assert (two.index, two.prev) == (one.index + 1, one.chain)


@given(st.lists(steps, max_size=30), st.integers(0, 6))
def test_whatever_a_fork_is_cut_from_its_first_request_passes_a_strict_provider(
    happened: list[tuple[str, object]], back: int
) -> None:
    world = World()
    for kind, value in happened:
        world.play(kind, value)
    world.fork(back)
    world.play("say", UserMessage(text="and now?"))

    start = world.transcript.context_start or Position()
    read = [entry for entry in world.store.all(world.transcript) if entry.index >= start.index]
    context = request_context(read)

    check_request(ModelRequest(messages=context.messages, instructions=context.instructions, session_id="fork"))
    assert context == request_context(world.plain), "what comes before the newest head is not needed"


def test_calls_that_are_open_at_the_place_have_an_error_result() -> None:
    calls = tuple(ToolCallRequest(call_id=name, name=name, arguments="{}") for name in ("done", "fork", "parked"))
    state = state_with("go")
    done = ToolMessage(call_id="done", name="done", text="fine")
    for draft in (assistant_draft(AssistantMessage(calls=calls), AT, 1), result_draft(done, ToolFacts(), AT, 1)):
        state.transcript.append(draft)

    fork = fork_of(state)
    fork.transcript.append(user_draft("and now?", AT, 2))
    sent: list[Message] = list(model_messages(fork.transcript.tail))

    results = [message for message in sent if isinstance(message, ToolMessage)]
    assert [(result.call_id, result.is_error) for result in results] == [
        ("done", False),
        ("fork", True),
        ("parked", True),
    ]
    check_request(ModelRequest(messages=tuple(sent), session_id="fork"))
