"""Calls of a response, resolved against the tools there are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import ResolvedCall
from tarry.core.resolve import MAX_CALLS, DeclaredTool, resolve_calls
from tarry.tools import tool


@tool
def bash(command: str, timeout: float = 5.0) -> str:
    return command


async def did_it_happen(arguments: object, api: object) -> str:
    return "yes"


@tool(replay="safe", sequential=True, timeout=timedelta(minutes=2), reconcile=did_it_happen)
def stop() -> str:
    return "stopped"


TOOLS: Mapping[str, DeclaredTool] = {"bash": bash, "stop": stop}


def response(*calls: tuple[str, str], length: bool = False) -> AssistantMessage:
    requests = tuple(
        ToolCallRequest(call_id=f"c{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(calls)
    )
    return AssistantMessage(calls=requests, stop="length" if length else "tool_use")


def error_of(call: ResolvedCall) -> tuple[str, str]:
    assert call.error is not None
    assert call.arguments == {}
    return call.error.code, call.error.text


def test_a_valid_call_carries_what_its_tool_declares() -> None:
    resolved = resolve_calls(response(("bash", '{"command": "ls"}'), ("stop", "null")), TOOLS)

    assert resolved == (
        ResolvedCall(call_id="c0", tool="bash", arguments={"command": "ls", "timeout": 5.0}),
        ResolvedCall(call_id="c1", tool="stop", replay="safe", sequential=True, reconciles=True, timeout=120.0),
    )


def test_a_bad_call_is_an_error_result_and_its_neighbour_runs() -> None:
    broken, fine = resolve_calls(response(("bash", '{"command": "l'), ("bash", '{"command": "ls"}')), TOOLS)

    code, text = error_of(broken)
    assert code == "invalid_arguments"
    assert "not valid JSON" in text
    assert fine.error is None


@pytest.mark.parametrize("raw", ["", " ", "null", "{}", "[]", '"5"', "5", '{"command": 5}', '{"cmd": "ls"}'])
def test_arguments_without_the_required_field_are_answered_with_its_name(raw: str) -> None:
    code, text = error_of(resolve_calls(response(("bash", raw)), TOOLS)[0])

    assert code == "invalid_arguments"
    assert "bash" in text
    assert "command (required)" in text


@pytest.mark.parametrize(("raw", "runs"), [("", True), ("null", True), ("{}", True), ("[]", False), ('"5"', False)])
def test_a_tool_without_parameters_runs_on_nothing_but_not_on_something_else(raw: str, runs: bool) -> None:
    (resolved,) = resolve_calls(response(("stop", raw)), TOOLS)

    assert (resolved.error is None) is runs


@pytest.mark.parametrize("name", ["delete_universe", "Bash", "", "bash\n"])
def test_an_unknown_tool_is_answered_with_what_exists(name: str) -> None:
    code, text = error_of(resolve_calls(response((name, "{}")), TOOLS)[0])

    assert code == "tool_unavailable"
    assert text.endswith("There are: bash, stop.")


def test_the_list_of_what_exists_is_bounded_and_names_whole_tools() -> None:
    many = {f"tool_{n:04}": bash for n in range(1000)}

    _, text = error_of(resolve_calls(response(("x" * 5000, "{}")), many)[0])

    assert len(text) < 1300
    assert text.endswith(" and more.")
    assert all(name in many for name in text.split("There are: ")[1].removesuffix(" and more.").split(", "))


def test_no_call_of_a_response_cut_by_length_is_run() -> None:
    resolved = resolve_calls(response(("bash", '{"command": "ls"}'), ("gone", '{"a'), length=True), TOOLS)

    assert [error_of(call)[0] for call in resolved] == ["cut_off", "cut_off"]
    assert "again, complete" in error_of(resolved[0])[1]


def test_calls_beyond_the_limit_are_refused_and_none_is_left_out() -> None:
    resolved = resolve_calls(response(*[("stop", "{}")] * (MAX_CALLS + 3)), TOOLS)

    assert all(call.error is None for call in resolved[:MAX_CALLS])
    assert [error_of(call)[0] for call in resolved[MAX_CALLS:]] == ["too_many_calls"] * 3
    assert [call.call_id for call in resolved] == [f"c{place}" for place in range(MAX_CALLS + 3)]
