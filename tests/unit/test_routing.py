"""Workers of a name: what they may be called, their queues, and calls that are sent on to them (spec §25.1, §25.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarry.app import Extension, Registry
from tarry.core import results
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import ResolvedCall
from tarry.core.resolve import resolve_calls
from tarry.core.routing import is_worker, queue_of, worker_of
from tarry.core.task import NOT_HERE_LIMIT, NOT_HERE_PAUSE, Execute, Interrupt, Ran, Unavailable, advance
from tarry.core.task_state import State
from tarry.tasks import DurableTask
from tarry.tools import tool

CALL = ResolvedCall(call_id="c", tool="render", worker="gpu")


@tool(worker="gpu")
def render() -> str:
    """Render."""
    return "rendered"


def test_a_call_carries_the_worker_that_its_tool_names() -> None:
    request = ToolCallRequest(call_id="c", name="render", arguments="{}")

    (call,) = resolve_calls(AssistantMessage(calls=(request,), stop="tool_use"), {"render": render})

    assert call.worker == "gpu"


def test_a_queue_of_a_name_lies_below_that_of_the_deployment() -> None:
    assert [queue_of("agents", worker) for worker in ("", "gpu")] == ["agents", "agents/gpu"]
    assert [worker_of(queue, "agents") for queue in ("agents", "agents/gpu", "agents-2", "other/gpu")] == [
        *("", "gpu", "", "")
    ]


@pytest.mark.parametrize("name", ["default", "all", "GPU", "a b", "-gpu", "a/b", "x" * 51])
def test_what_no_worker_can_be_called_is_refused_wherever_it_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="tool render: worker"):
        tool(name="render", worker=name)(lambda: "x")
    with pytest.raises(ValueError, match=r"task app\.shade: worker"):
        DurableTask("app.shade", str, str, worker=name)
    with pytest.raises(ValueError, match="extension pictures: worker"):
        Registry([Extension("pictures", worker=name)])
    with pytest.raises(ValueError, match="tool render: worker"):
        Registry([Extension("pictures", [replace(render, worker=name)])])
    assert is_worker(name) == (name == "default")


def test_a_tool_that_has_moved_is_sent_on_at_once_and_with_a_pause_where_deploys_disagree() -> None:
    state = State()
    there = [Ran(results.not_here("render", worker=worker)) for worker in ("big", "gpu", "big", "gpu", "big", "gpu")]
    commands = [advance(state, event, CALL) for event in there]

    assert NOT_HERE_LIMIT == 5
    assert commands == [Execute(), *[Execute(NOT_HERE_PAUSE)] * 4, Unavailable()]
    assert (state.worker, state.run, state.attempt, state.intent) == ("gpu", 1, 1, 1)


def test_a_tool_that_moved_after_a_run_had_begun_keeps_what_that_published() -> None:
    state = State()

    assert advance(state, Ran(results.not_here("render", "half", "big")), CALL) == Execute()
    assert (state.worker, state.published, state.run) == ("big", "half", 2)
    for _ in range(NOT_HERE_LIMIT - 1):
        advance(state, Ran(results.not_here("render")), CALL)
    assert advance(state, Ran(results.not_here("render")), CALL) == Interrupt("half")
