"""`tarry configure`: what a conversation chooses."""

from __future__ import annotations

from typing import Annotated, cast, get_args

import typer

from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.serving import conversation_of
from tarry.client import Harness
from tarry.core.agent import Agent, AgentFields, Edits, ThinkingLevel

_NAMES = "A,B: those alone; +A,-B: changes to what the application offers; '': none."


def configure(
    conversation: Annotated[str, typer.Argument(help="The conversation; it is started if it is new.")],
    model: Annotated[str | None, typer.Option(help="The name of a model of the application.")] = None,
    thinking: Annotated[str | None, typer.Option(help=", ".join(get_args(ThinkingLevel)) + ".")] = None,
    extensions: Annotated[str | None, typer.Option(help=_NAMES)] = None,
    tools: Annotated[str | None, typer.Option(help=_NAMES)] = None,
    instructions: Annotated[str | None, typer.Option(help="In place of those of the application.")] = None,
    cwd: Annotated[str | None, typer.Option(help="The folder that coding tools work in.")] = None,
    default: Annotated[
        list[str] | None, typer.Option(help="Take this choice back; may be given several times.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Choose what a conversation goes by, from its next model request on.

    No run begins, and what is not named stays. Without a worker the server keeps the change. Never choose a secret.
    """
    given = {"model": model, "thinking": thinking, "instructions": instructions, "cwd": cwd}
    change: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    for name, value in (("extensions", extensions), ("tools", tools)):
        if value is not None:
            change[name] = _names(value)
    change.update(_taken_back(default or []))
    return run_async(_configure(Output(as_json=as_json), conversation, change))


async def _configure(output: Output, conversation_id: str, change: dict[str, object]) -> int:
    harness = await Harness.connect()
    conversation = conversation_of(harness, conversation_id)
    try:
        agent = await conversation.configure(**cast("AgentFields", change))
    except ValueError as error:
        raise Problem(ExitCode.PUT_RIGHT, "usage", str(error)) from None
    if output.as_json:
        chosen = None if agent is None else agent.model_dump(mode="json")
        accepted_by = "server" if agent is None else "worker"
        output.json({"conversation_id": conversation.id, "accepted_by": accepted_by, "agent": chosen})
    else:
        output.text("accepted by the server; it counts when a worker is up" if agent is None else _told(agent))
    return ExitCode.DONE


def _names(text: str) -> list[str] | Edits:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not any(name[0] in "+-" for name in names):
        return names
    if not all(name[0] in "+-" and name[1:] for name in names):
        raise Problem(ExitCode.PUT_RIGHT, "usage", f"{text!r}: give either names, or changes with + or - each")
    return Edits(
        add=tuple(name[1:] for name in names if name[0] == "+"),
        remove=tuple(name[1:] for name in names if name[0] == "-"),
    )


def _taken_back(names: list[str]) -> dict[str, None]:
    if unknown := [name for name in names if name not in Agent.model_fields]:
        known = ", ".join(Agent.model_fields)
        raise Problem(ExitCode.PUT_RIGHT, "usage", f"--default {unknown[0]}: give one of {known}")
    return dict.fromkeys(names)


def _told(agent: Agent) -> str:
    chosen = agent.model_dump(mode="json", exclude_none=True)
    return "\n".join(f"{name}: {value}" for name, value in chosen.items()) or "everything goes by the application"
