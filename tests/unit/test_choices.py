"""What a conversation chose: changes, edits of what the host offers, and the log that forks read (spec §7.6)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tarry.app import App, Extension
from tarry.core.agent import MAX_INSTRUCTIONS, Agent, AgentChange, Edits, select
from tarry.core.choices import MAX_LOG, Choice, Choices
from tarry.core.conversation import ConversationState
from tarry.core.protocol import RunSettings
from tarry.testing import ScriptedModel
from tarry.tools import tool


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool
def touch(what: str) -> str:
    """Touch."""
    return what


APP = App(
    model=ScriptedModel([]),
    models={"fast": ScriptedModel([], "scripted/fast")},
    instructions="Be brief.",
    extensions=[Extension("eyes", [look]), Extension("hands", [touch])],
)


def test_a_change_replaces_what_is_given_takes_back_none_and_keeps_the_rest() -> None:
    agent = Agent(model="a", thinking="low", cwd="/x")
    change = AgentChange(model="b", thinking=None)

    assert change.applied_to(agent) == Agent(model="b", cwd="/x")
    assert change.model_dump_json() == '{"model":"b","thinking":null}'
    assert AgentChange.model_validate_json(change.model_dump_json()).applied_to(agent) == Agent(model="b", cwd="/x")


@pytest.mark.parametrize(
    "change",
    [
        {"modell": "a"},
        {"thinking": "hard"},
        {"extensions": "eyes"},
        {"tools": {"add": [""]}},
        {"instructions": "x" * (MAX_INSTRUCTIONS + 1)},
        {"tools": ["t"] * 257},
    ],
)
def test_what_is_no_choice_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AgentChange.model_validate(change)


def test_edits_are_of_what_the_host_offers_and_adding_wins() -> None:
    assert select(None, ["a", "b"]) == ("a", "b")
    assert select(("b", "c"), ["a", "b"]) == ("b", "c")
    assert select(Edits(remove=("a", "c"), add=("c",)), ["a", "b"]) == ("b", "c")


def test_what_is_not_chosen_is_the_applications_and_unknown_names_are_skipped() -> None:
    nothing = APP.resolved(Agent())
    some = APP.resolved(Agent(model="fast", extensions=("hands", "wings"), tools=Edits(add=("fly",)), cwd="/x"))

    assert nothing == Agent(
        model="scripted/1",
        thinking="off",
        extensions=("eyes", "hands"),
        tools=("look", "touch"),
        instructions="Be brief.",
    )
    assert some == Agent(
        model="fast", thinking="off", extensions=("hands",), tools=("touch",), instructions="Be brief.", cwd="/x"
    )


def test_a_conversation_edits_what_the_defaults_leave_and_may_add_what_they_left_out() -> None:
    app = App(model=APP.model, extensions=APP.extensions, defaults=Agent(tools=("look",), thinking="high"))

    assert app.resolved(Agent()).tools == ("look",)
    assert app.resolved(Agent(tools=Edits(add=("touch",)))).tools == ("look", "touch")
    assert app.resolved(Agent(tools=("touch",), thinking="off")).thinking == "off"


def test_a_removed_extension_counts_again_once_it_is_installed() -> None:
    chosen = Agent(extensions=("eyes", "hands"))
    without = App(model=APP.model, extensions=[Extension("eyes", [look])])

    assert without.resolved(chosen).tools == ("look",)
    assert APP.resolved(chosen).tools == ("look", "touch")


def test_the_choices_as_of_an_entry_are_those_made_by_then() -> None:
    choices = Choices()
    choices.choose(AgentChange(model="a"), 3)
    choices.choose(AgentChange(model="a"), 5)  # changes nothing
    choices.choose(AgentChange(model="b"), 7)

    assert [choices.as_of(entry).model for entry in (0, 2, 3, 6, 7, 9)] == [None, None, "a", "a", "b", "b"]
    assert (choices.number, choices.agent.model) == (2, "b")


def test_choices_that_came_while_a_run_was_open_stand_where_it_took_them_up() -> None:
    choices = Choices()
    for model in ("a", "b", "c"):
        choices.choose(AgentChange(model=model), 2)
    choices.place({2: 5}, since=1, end=9)

    assert [(choice.number, choice.entry) for choice in choices.log] == [(0, 0), (1, 2), (2, 5), (3, 9)]


def test_the_log_keeps_the_newest_and_no_more_than_it_may() -> None:
    choices = Choices()
    for number in range(200):
        choices.choose(AgentChange(model=str(number)), number)
    long = Choices()
    for number in range(9):
        long.choose(AgentChange(instructions=str(number) * MAX_INSTRUCTIONS), number)

    assert len(choices.log) == MAX_LOG
    assert choices.as_of(0).model == "150"
    assert [choice.number for choice in long.log] == [9]


def test_extensions_that_an_earlier_version_wrote_are_read_as_choices() -> None:
    settings = RunSettings.model_validate({"extensions": ["eyes"], "max_turns": 3})
    state = ConversationState.model_validate({"nonce": "n", "extensions": ["eyes"]})

    assert settings.chosen == Agent(extensions=("eyes",))
    assert state.choices.log == [Choice(agent=Agent(extensions=("eyes",)))]
    assert ConversationState.model_validate(state.model_dump(mode="json")) == state
