"""What is foreseen of a request is what the tree says of it (spec §17.14)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from tarry.core.subagents.foreseen import ForeseeingTree
from tarry.core.subagents.protocol import FollowUp, Interrupt, ReadUpdates, SendMessage, StartAgent
from tarry.core.subagents.refusing import Refused
from tests.support.trees import NOW, Bench, text


def bench() -> Bench:
    """Two agents, one below the other, with all permits in use; one call of the root's has sent a message."""
    made = Bench(limit=2, depth=2)
    made.start("a")
    made.start("b", by=made.caller("/root/a"))
    made.work()
    made.send("a", "hello", by=made.caller(call="sent"))
    return made


def start(by: str = "/root", **fields: object) -> Callable[[Bench], BaseModel]:
    data = {"definition": "scout", "prompt": text("go"), **fields}
    return lambda bench: StartAgent.model_validate({"caller": bench.caller(by), **data})


REFUSED: dict[str, Callable[[Bench], BaseModel]] = {
    "name taken": start(task_name="a"),
    "bad name": start(task_name="A"),
    "too deep": start("/root/a/b"),
    "capacity": start("/root/a"),
    "too large": start(prompt=text("x" * 131_073)),
    "not of this tree": lambda bench: SendMessage.model_validate(
        {"caller": {"conversation_id": "other", "task_id": "other~n/g1/t1.0"}, "target": "a", "text": text("m")}
    ),
    "unknown": lambda bench: SendMessage(caller=bench.caller(), target="nobody", text=text("m")),
    "no child": lambda bench: SendMessage(caller=bench.caller(), target="/root/a/b", text=text("m")),
    "conflict": lambda bench: SendMessage(caller=bench.caller(call="sent"), target="a", text=text("other")),
    "nothing to say": lambda bench: FollowUp(caller=bench.caller("/root/a"), target="b"),
    "in a circle": lambda bench: ReadUpdates(caller=bench.caller("/root/a/b"), target="/root/a"),
    "no descendant": lambda bench: Interrupt(caller=bench.caller("/root/a"), target="/root"),
}
GRANTED: dict[str, Callable[[Bench], BaseModel]] = {
    "start": start(task_name="c"),
    "send": lambda bench: SendMessage(caller=bench.caller(), target="a", text=text("m")),
    "send again": lambda bench: SendMessage(caller=bench.caller(call="sent"), target="a", text=text("hello")),
    "follow up": lambda bench: FollowUp(caller=bench.caller(), target="a"),
    "read": lambda bench: ReadUpdates(caller=bench.caller(), target="a"),
    "interrupt": lambda bench: Interrupt(caller=bench.caller(), target="/root/a/b"),
}


def answered(tree: ForeseeingTree, request: BaseModel) -> BaseModel:
    match request:
        case StartAgent():
            return tree.start(request, NOW)
        case SendMessage():
            return tree.send(request, NOW)
        case FollowUp():
            return tree.follow_up(request, NOW)
        case ReadUpdates():
            return tree.read(request, NOW)
    assert isinstance(request, Interrupt)
    return tree.interrupt(request, NOW)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_foreseen_as_the_tree_says_it_and_changes_nothing(name: str) -> None:
    made = bench()
    request = REFUSED[name](made)
    tree = ForeseeingTree.model_validate(made.tree.model_dump())

    with pytest.raises(Refused) as foreseen:
        tree.foresee(request)

    assert tree.model_dump() == made.tree.model_dump()
    with pytest.raises(Refused) as refused:
        answered(tree, request)
    assert refused.value.refusal == foreseen.value.refusal


@pytest.mark.parametrize("name", GRANTED)
def test_what_the_tree_grants_is_not_refused_ahead_and_nothing_is_changed_by_asking(name: str) -> None:
    made = bench()
    request = GRANTED[name](made)
    tree = ForeseeingTree.model_validate(made.tree.model_dump())

    tree.foresee(request)

    assert tree.model_dump() == made.tree.model_dump()
    answered(tree, request)
