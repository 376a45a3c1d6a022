"""What the workers of the drills with several turns serve: an events desk that books rooms, asks people and prints.

An input says what the model does, a step a turn, the calls of a turn joined by `&`:

    book hall | ask ana & ask ben 60 | print 3 | say Done.

`book` has its effect at once, `ask` parks on `desk.answer` under the person's name (with a number: so many seconds),
`print` and `print_once` run until they are let go, the first of them declared safe. The model `hasty` asks everybody
where it should ask one, `brief` asks nobody. Each effect is a ticket at the tracker, under no key: what happens twice
is there twice.
"""

from __future__ import annotations

import os
from datetime import timedelta

import httpx
from pydantic import BaseModel

from signals import Ask, Signal, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.core.agent import Agent
from tarry.core.messages import AssistantMessage, UserMessage
from tarry.drills.kit.ground import BEGUN, TRACKER
from tarry.drills.kit.model import HoldingModel
from tarry.drills.kit.points import stop_at
from tarry.models import ModelRequest
from tarry.testing.steps import Call, Reply, call, calls, say
from tarry.tools import tool

MOST_TURNS = 20


class Words(BaseModel):
    """What somebody answers."""

    text: str


ANSWER = Signal("desk.answer", 1, Words)


@tool
def book(room: str, api: ToolApi) -> str:
    """Book a room."""
    _happens(f"booked the {room}", api)
    return f"Booked the {room}"


def _take_back(whom: str, api: ToolApi) -> None:
    _happens(f"told {whom} that no answer is needed", api)


@tool(cancel=_take_back)
def ask(whom: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    """Ask somebody, who may take days."""
    match api.read_signal_sync(ANSWER, whom):
        case Received(value=words):
            _happens(f"noted what {whom} said", api)
            return f"{whom} said: {words.text}"
        case Expired():
            return f"{whom} did not answer in time"
    _happens(f"asked {whom}", api)
    question = Ask(text="May the party cost more?", for_whom=whom)
    return Sleep(
        "asked", signals=[ANSWER.key(whom)], until=timedelta(seconds=seconds) if seconds else None, ask=question
    )


@tool(name="print", replay="safe")
def print_again(count: int, api: ToolApi) -> str:
    """Print badges; again, if need be."""
    return _print(count, api)


@tool
def print_once(count: int, api: ToolApi) -> str:
    """Print badges on the last paper."""
    return _print(count, api)


def _print(count: int, api: ToolApi) -> str:
    api.output(f"printing {count} badges\n")
    stop_at(BEGUN, api.conversation_id)
    _happens(f"printed {count} badges", api)
    return f"Printed {count} badges"


def _happens(effect: str, api: ToolApi) -> None:
    # No proxy of the environment: the tracker is on this machine.
    with httpx.Client(base_url=os.environ[TRACKER], trust_env=False) as tracker:
        tracker.post("/tickets", json={"title": f"{api.conversation_id}: {effect}"}).raise_for_status()


def _answers(instead: str | None = None) -> HoldingModel:
    """`instead` is whom it asks in place of who should be asked; empty: nobody, so it answers."""

    def planned(request: ModelRequest) -> Reply:
        place = max(at for at, message in enumerate(request.messages) if isinstance(message, UserMessage))
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages[place:])
        step = request.messages[place].text.split(" | ")[turn]
        if instead is not None and not instead and step.startswith("ask "):
            return say("I decide it myself.")
        if step.startswith("say "):
            return say(step.removeprefix("say "))
        return calls(*(_call(asked, instead) for asked in step.split(" & ")))

    return HoldingModel(*[planned] * MOST_TURNS)


def _call(asked: str, instead: str | None) -> Call:
    name, what, *seconds = asked.split()
    if name == "book":
        return call("book", room=what)
    if name == "ask":
        return call("ask", whom=instead or what, seconds=float(seconds[0]) if seconds else None)
    return call(name, count=int(what))


app = App(
    models={"careful": _answers(), "hasty": _answers("everybody"), "brief": _answers("")},
    defaults=Agent(model="careful"),
    extensions=[Extension("desk", [book, ask, print_again, print_once], signals=[ANSWER])],
)
