"""Which tools and extensions a child has: its definition is a ceiling, never a grant (spec §17.24).

Pure. The order is the rule: first the extensions that a child has, then the tools that these and the application leave
active, then the ceiling of the definition, and last the policy of the mode, which takes away and never adds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tarry.core.agent import Agent, Edits
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode
from tarry.core.subagents.refusing import Refused

MUTATION = "$mutation"
"""Stands for the tools that change files, whichever are active."""
DELEGATION = ("subagent", "subagent_fork")
"""Tools that start a child."""
LIFECYCLE = ("send_message", "followup_task", "wait_agent", "interrupt_agent", "list_agents")
"""Tools for children that go on by themselves."""
REPORT = "report"
"""What every child that goes on by itself may tell its parent with."""
SUBAGENTS = "subagents"
"""The extension that these tools are of."""
BUILT_IN = ("coding", SUBAGENTS)
"""Extensions that a child has without inheriting any."""

Choice = tuple[str, ...] | Edits | None
"""As `Agent` has choices of tools and extensions: names, changes to what the application offers, or all of that."""

_PATCH = "apply_patch"
_EDITS = ("edit", "write")


@dataclass(frozen=True)
class Installed:
    """An extension of the parent. `is_guard`: it is asked before calls, or wraps them, and nobody goes without it."""

    name: str
    tools: tuple[str, ...] = ()
    is_guard: bool = False


def is_tool_name(name: str) -> bool:
    """Whether a tool may have that name."""
    return 0 < len(name) <= 64 and all(c.isascii() and (c.isalnum() or c in "_-") for c in name)


def withheld(mode: RuntimeMode, *, may_delegate: bool = True) -> frozenset[str]:
    """The tools that a child of that mode never has, whatever its definition names.

    `may_delegate`: it is above the greatest depth, and there is an agent to delegate to.
    """
    taken: set[str] = set()
    if mode == "foreground":
        taken |= {*LIFECYCLE, REPORT}
    if not may_delegate:
        taken |= {*LIFECYCLE, *DELEGATION}
    return frozenset(taken)


def has_extension(one: Installed, *, inherit: bool) -> bool:
    """Whether a child has that extension of its parent: one that is built in, a guard, or any where it inherits.

    A guard always, so that delegating is no way around an approval.
    """
    return inherit or one.is_guard or one.name in BUILT_IN


def child_extensions(chosen: Choice, parent: Iterable[Installed], *, inherit: bool) -> Choice:
    """The choice of extensions of a child: what its parent has `chosen`, without those that it does not inherit.

    Edits stay edits, so that a guard that a deploy adds later counts for children that are there.
    """
    return _without(chosen, {one.name for one in parent if not has_extension(one, inherit=inherit)})


def child_tools(
    ceiling: Sequence[str] | None,
    chosen: Choice,
    *,
    registered: Iterable[str],
    active: Iterable[str],
    mode: RuntimeMode,
    may_delegate: bool = True,
) -> Choice:
    """The choice of tools of a child: its definition's ceiling, or without one what its parent has `chosen`.

    A ceiling is what the author of the definition allows: it may name what the parent itself does not have.

    Args:
        ceiling: of the definition; None: there is none.
        chosen: the parent's own choice of tools.
        registered: the tools of the child's extensions.
        active: those of them that the application and its extensions leave active.
        mode: whether it goes on by itself.
        may_delegate: whether it may have children.

    Raises:
        Refused: the ceiling names what is unknown or not active, or nothing that changes files is.
    """
    taken = withheld(mode, may_delegate=may_delegate)
    if ceiling is None:
        return _without(chosen, taken, kept=(REPORT,) if mode == "background" else ())
    names = [*_resolved(ceiling, tuple(registered), tuple(active))]
    if mode == "background":
        names.append(REPORT)
    return tuple(name for name in dict.fromkeys(names) if name not in taken)


def child_agent(
    definition: AgentDefinition,
    parent: Agent,
    installed: Sequence[Installed],
    *,
    active: Iterable[str],
    models: Sequence[str],
    inherit: bool,
    mode: RuntimeMode,
    may_delegate: bool = True,
) -> Agent:
    """What the conversation of a child begins with.

    Args:
        definition: the agent.
        parent: the parent's choices; model, thinking and folder are the child's where the definition has none.
        installed: the extensions that the parent has.
        active: the tools that the application and its extensions leave active, whatever the parent has of them.
        models: the names of all models that can be chosen.
        inherit: whether a child has all extensions of its parent.
        mode: whether it goes on by itself.
        may_delegate: whether it may have children.

    Raises:
        Refused: its tools or its model cannot be had.
    """
    registered = [tool for one in installed if has_extension(one, inherit=inherit) for tool in one.tools]
    _require_inherited(definition, installed, registered)
    tools = child_tools(
        definition.tools, parent.tools, registered=registered, active=active, mode=mode, may_delegate=may_delegate
    )
    return Agent(
        model=parent.model if definition.model is None else model_of(definition.model, models),
        thinking=definition.thinking or parent.thinking,
        extensions=child_extensions(parent.extensions, installed, inherit=inherit),
        tools=tools,
        instructions=definition.prompt,
        cwd=parent.cwd,
    )


def model_of(wanted: str, known: Sequence[str]) -> str:
    """The model of that name, or the only one that is it with a provider before a `/`.

    Raises:
        Refused: there is none, or more than one.
    """
    if wanted in known:
        return wanted
    found = [name for name in known if name.endswith(f"/{wanted}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused("invalid", f"the model {wanted!r} may be any of {', '.join(found)}: name it in full")
    raise Refused("invalid", f"there is no model {wanted!r} here; known are: {', '.join(known) or 'none'}")


def _resolved(ceiling: Sequence[str], registered: tuple[str, ...], active: tuple[str, ...]) -> Iterable[str]:
    """The tools that a ceiling names, each of them there and active; what a mode takes away is judged afterwards."""
    for name in ceiling:
        if name == MUTATION:
            yield from _mutation(active)
        elif name.startswith("$"):
            raise Refused("invalid", f"unknown name {name} among the tools: the only one of its kind is {MUTATION}")
        elif name in (*DELEGATION, *LIFECYCLE, REPORT) or name in active:
            yield name
        elif name in registered:
            raise Refused(
                "invalid", f"the tool {name} is not active for this child: take it out of the definition's tools"
            )
        else:
            known = ", ".join(sorted(registered)) or "none"
            raise Refused("invalid", f"there is no tool {name} for this child; known are: {known}")


def _mutation(active: tuple[str, ...]) -> tuple[str, ...]:
    if _PATCH in active:
        return (_PATCH,)
    found = tuple(name for name in _EDITS if name in active)
    if not found:
        raise Refused("invalid", f"{MUTATION}: no tool that changes files is active ({_PATCH}, {' or '.join(_EDITS)})")
    return found


def _require_inherited(definition: AgentDefinition, installed: Sequence[Installed], registered: Sequence[str]) -> None:
    """A tool of an extension that the child goes without is worth another word than an unknown one."""
    owners = {tool: one.name for one in installed for tool in one.tools if tool not in registered}
    for name in definition.tools or ():
        if name in owners:
            raise Refused(
                "invalid",
                f"the tool {name} is of the extension {owners[name]}, which children do not have: set "
                f"inheritExtensions to true, or take it out of the tools of {definition.name}",
            )


def _without(chosen: Choice, taken: Collection[str], kept: tuple[str, ...] = ()) -> Choice:
    """A choice without the names that are taken away, and with those that are kept."""
    match chosen:
        case None:
            return Edits(remove=tuple(sorted(taken))) if taken else None
        case Edits():
            removed = {*chosen.remove, *taken}.difference(kept)
            return Edits(add=tuple(name for name in chosen.add if name not in taken), remove=tuple(sorted(removed)))
        case names:
            return tuple(name for name in dict.fromkeys((*names, *kept)) if name not in taken)
