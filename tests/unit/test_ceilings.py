"""Tool ceilings: what a child has of what there is (spec §17.24)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.agent import Agent, Edits
from tarry.core.subagents.ceilings import (
    DELEGATION,
    LIFECYCLE,
    Choice,
    Installed,
    child_agent,
    child_extensions,
    child_tools,
    model_of,
    withheld,
)
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode
from tarry.core.subagents.refusing import Refused

CODING = ("read", "write", "edit", "bash", "grep", "find", "ls")
REGISTERED = (*CODING, "open_ticket")


def tools(
    *ceiling: str,
    active: tuple[str, ...] = REGISTERED,
    registered: tuple[str, ...] = REGISTERED,
    mode: RuntimeMode = "background",
    may_delegate: bool = True,
) -> Choice:
    return child_tools(ceiling, None, registered=registered, active=active, mode=mode, may_delegate=may_delegate)


def refused(*ceiling: str, active: tuple[str, ...] = REGISTERED) -> str:
    with pytest.raises(Refused) as error:
        tools(*ceiling, active=active)
    return str(error.value)


# A ceiling.


def test_a_child_has_only_the_tools_that_its_ceiling_names() -> None:
    assert tools("read", "grep") == ("read", "grep", "report")


def test_none_is_no_tool_at_all() -> None:
    assert tools() == ("report",)
    assert tools(mode="foreground") == ()


def test_report_is_kept_in_background_and_gone_in_foreground() -> None:
    assert tools("read", "report") == ("read", "report")
    assert tools("read", "report", mode="foreground") == ("read",)


def test_a_tool_that_nothing_registers_is_refused_with_what_there_is() -> None:
    assert refused("read", "compile") == (
        "there is no tool compile for this child; known are: bash, edit, find, grep, ls, open_ticket, read, write"
    )


def test_a_tool_that_is_registered_and_not_active_is_refused_and_not_activated() -> None:
    assert refused("read", "write", active=("read",)) == (
        "the tool write is not active for this child: take it out of the definition's tools"
    )


def test_an_unknown_name_with_a_dollar_is_refused() -> None:
    assert refused("$shell") == "unknown name $shell among the tools: the only one of its kind is $mutation"


# $mutation.


@pytest.mark.parametrize(
    ("active", "found"),
    [
        (("read", "edit", "write"), ("edit", "write")),
        (("read", "write"), ("write",)),
        (("read", "edit"), ("edit",)),
        (("read", "edit", "write", "apply_patch"), ("apply_patch",)),
        (("apply_patch",), ("apply_patch",)),
    ],
)
def test_mutation_is_the_active_patch_else_the_active_edit_and_write(
    active: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert tools("$mutation", active=active) == (*found, "report")


def test_a_patch_that_is_registered_and_not_active_does_not_count_for_mutation() -> None:
    found = tools("$mutation", registered=("apply_patch", "edit"), active=("edit",))

    assert found == ("edit", "report")


def test_mutation_that_nothing_active_can_do_is_refused() -> None:
    assert refused("read", "$mutation", active=("read", "bash")) == (
        "$mutation: no tool that changes files is active (apply_patch, edit or write)"
    )


def test_mutation_beside_what_it_stands_for_names_it_once() -> None:
    assert tools("edit", "$mutation") == ("edit", "write", "report")


# The policy of the mode comes last.


def test_foreground_takes_the_tools_for_a_child_that_goes_on_even_when_they_are_named() -> None:
    assert tools("read", "subagent", *LIFECYCLE, mode="foreground") == ("read", "subagent")


def test_foreground_is_no_way_around_the_ceiling() -> None:
    with pytest.raises(Refused, match="no tool compile"):
        tools("compile", "wait_agent", mode="foreground")


def test_where_no_child_may_be_started_its_tools_are_gone_too() -> None:
    assert tools("read", *DELEGATION, *LIFECYCLE, may_delegate=False) == ("read", "report")


def test_delegation_is_only_where_the_ceiling_names_it() -> None:
    assert tools("read", "subagent", "wait_agent") == ("read", "subagent", "wait_agent", "report")
    assert tools("read") == ("read", "report")


# No ceiling.


@pytest.mark.parametrize(
    ("chosen", "background", "foreground"),
    [
        (None, None, Edits(remove=tuple(sorted((*LIFECYCLE, "report"))))),
        (("read", "wait_agent"), ("read", "wait_agent", "report"), ("read",)),
        (
            Edits(add=("wait_agent", "x"), remove=("bash", "report")),
            Edits(add=("wait_agent", "x"), remove=("bash",)),
            Edits(add=("x",), remove=tuple(sorted(("bash", *LIFECYCLE, "report")))),
        ),
    ],
)
def test_without_a_ceiling_a_child_has_its_parents_choice(
    chosen: Choice, background: Choice, foreground: Choice
) -> None:
    found = [
        child_tools(None, chosen, registered=REGISTERED, active=(), mode=mode) for mode in ("background", "foreground")
    ]

    assert found == [background, foreground]


# Extensions.

PARENT = (
    Installed("coding", CODING),
    Installed("tickets", ("open_ticket",)),
    Installed("approvals", is_guard=True),
    Installed("subagents", (*DELEGATION, *LIFECYCLE, "report")),
)


def test_without_inheriting_a_child_has_what_is_built_in_and_every_guard() -> None:
    assert child_extensions(("coding", "tickets", "approvals", "subagents"), PARENT, inherit=False) == (
        "coding",
        "approvals",
        "subagents",
    )


def test_with_inheriting_a_child_has_its_parents_choice_of_extensions() -> None:
    choices: list[Choice] = [None, ("coding", "tickets"), Edits(remove=("coding",))]

    assert [child_extensions(chosen, PARENT, inherit=True) for chosen in choices] == choices


def test_a_guard_that_is_installed_later_counts_for_a_child_that_is_there() -> None:
    assert child_extensions(None, PARENT, inherit=False) == Edits(remove=("tickets",))


# All of it together.


def agent(definition: AgentDefinition, parent: Agent | None = None, *, inherit: bool = False) -> Agent:
    return child_agent(
        definition,
        parent or Agent(model="openai/gpt-5.4", thinking="low", cwd="src"),
        PARENT,
        active=REGISTERED,
        models=("openai/gpt-5.4", "openai/mini", "azure/mini"),
        inherit=inherit,
        mode="background",
    )


def test_a_child_begins_with_what_its_definition_says_and_its_parents_folder() -> None:
    definition = AgentDefinition(
        name="scout", description="x", prompt="Look.", tools=("read",), model="azure/mini", thinking="high"
    )

    assert agent(definition) == Agent(
        model="azure/mini",
        thinking="high",
        extensions=Edits(remove=("tickets",)),
        tools=("read", "report"),
        instructions="Look.",
        cwd="src",
    )


def test_what_a_definition_leaves_out_is_as_the_parent_has_it() -> None:
    child = agent(AgentDefinition(name="a", description="x", prompt="Work."), inherit=True)

    assert child == Agent(model="openai/gpt-5.4", thinking="low", instructions="Work.", cwd="src")


def test_a_definition_may_allow_what_the_parent_itself_does_not_have() -> None:
    coordinator = Agent(tools=("subagent", "wait_agent"))

    assert agent(AgentDefinition(name="a", description="x", tools=("$mutation",)), coordinator).tools == (
        "edit",
        "write",
        "report",
    )


def test_a_tool_of_an_extension_that_is_not_inherited_is_refused_with_the_setting() -> None:
    definition = AgentDefinition(name="clerk", description="x", tools=("open_ticket",))

    with pytest.raises(Refused) as error:
        agent(definition)

    assert str(error.value) == (
        "the tool open_ticket is of the extension tickets, which children do not have: set inheritExtensions to true, "
        "or take it out of the tools of clerk"
    )
    assert agent(definition, inherit=True).tools == ("open_ticket", "report")


@pytest.mark.parametrize(("wanted", "found"), [("openai/mini", "openai/mini"), ("gpt-5.4", "openai/gpt-5.4")])
def test_a_model_is_named_in_full_or_unambiguously(wanted: str, found: str) -> None:
    assert model_of(wanted, ("openai/gpt-5.4", "openai/mini", "azure/mini")) == found


def test_a_model_that_may_be_several_or_is_none_is_refused() -> None:
    known = ("openai/mini", "azure/mini")

    with pytest.raises(Refused, match="the model 'mini' may be any of openai/mini, azure/mini: name it in full"):
        model_of("mini", known)
    with pytest.raises(Refused, match="there is no model 'big' here; known are: openai/mini, azure/mini"):
        model_of("big", known)


# Whatever is asked for.

NAMES = st.sampled_from((*REGISTERED, *DELEGATION, *LIFECYCLE, "report", "$mutation", "$x", "unknown", "apply_patch"))


@given(
    ceiling=st.lists(NAMES, max_size=6),
    active=st.sets(st.sampled_from((*REGISTERED, "apply_patch"))),
    mode=st.sampled_from(("background", "foreground")),
    may_delegate=st.booleans(),
)
def test_a_child_never_has_a_tool_that_its_ceiling_does_not_name_or_that_is_not_active(
    ceiling: list[str], active: set[str], mode: RuntimeMode, may_delegate: bool
) -> None:
    controls = {*DELEGATION, *LIFECYCLE, "report"}
    try:
        found = tools(*ceiling, active=tuple(active), mode=mode, may_delegate=may_delegate)
    except Refused:
        wrong = [name for name in ceiling if name not in {*active, *controls, "$mutation"}]
        assert wrong or not active & {"edit", "write", "apply_patch"}
        return
    assert isinstance(found, tuple)
    named = {*ceiling, "report", *(("edit", "write", "apply_patch") if "$mutation" in ceiling else ())}
    assert set(found) <= named & {*active, *controls}
    assert not set(found) & withheld(mode, may_delegate=may_delegate)
    assert ("report" in found) == (mode == "background")
    assert len(found) == len(set(found))


def test_what_is_withheld_only_grows_with_each_limit() -> None:
    modes: tuple[RuntimeMode, ...] = ("background", "foreground")
    sizes = [len(withheld(mode, may_delegate=may)) for mode, may in itertools.product(modes, (True, False))]

    assert sizes == [0, 7, 6, 8]
