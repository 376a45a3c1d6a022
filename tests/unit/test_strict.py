"""What a strict provider refuses, rule by rule."""

from __future__ import annotations

import pytest

from tarry.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCallRequest,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from tarry.models import ModelRequest
from tarry.testing import InvalidRequest, check_request

USER = UserMessage(text="hi")
SYSTEM = SystemMessage(text="a new rule")
ANSWER = AssistantMessage(text="hello")


def asks(*call_ids: str, name: str = "look", arguments: str = '{"a": 1}') -> AssistantMessage:
    calls = tuple(ToolCallRequest(call_id=call_id, name=name, arguments=arguments) for call_id in call_ids)
    return AssistantMessage(calls=calls, stop="tool_use")


def result(call_id: str, name: str = "look", text: str = "seen") -> ToolMessage:
    return ToolMessage(call_id=call_id, name=name, text=text)


def spec(name: str = "look", kind: str = "object") -> ToolSpec:
    return ToolSpec(name=name, description="looks", parameters={"type": kind})


def request(*messages: Message, instructions: str = "", tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest(messages=messages, instructions=instructions, tools=tools, session_id="c")


VALID: list[ModelRequest] = [
    request(USER),
    request(USER, USER, ANSWER, ANSWER, USER),
    request(USER, asks("a", "b"), result("a", text=""), result("b"), USER, instructions="be kind", tools=(spec(),)),
    request(USER, asks("a"), result("a"), asks("b", arguments="{}"), result("b")),
    request(USER, SYSTEM, SYSTEM, ANSWER, USER, SYSTEM),
    request(USER, asks("a"), result("a"), SYSTEM),
]


@pytest.mark.parametrize("valid", VALID)
def test_a_valid_request_passes(valid: ModelRequest) -> None:
    check_request(valid)


INVALID: dict[str, ModelRequest] = {
    "there are no messages": request(),
    "message 0 is of role assistant": request(ANSWER, USER),
    "message 0 is of role tool": request(result("a")),
    "message 0 is of role system": request(SYSTEM, USER),
    "message 1: the system's text is empty": request(USER, SystemMessage(text=" \n")),
    "no result of 'a' in its place directly": request(USER, asks("a"), SYSTEM, result("a")),
    "message 1: the user's text is empty": request(USER, UserMessage(text=" \n")),
    "message 1: the response is empty": request(USER, AssistantMessage(text=" ", reasoning="hm")),
    "message 1: the response was aborted": request(USER, AssistantMessage(text="hel", stop="aborted")),
    "message 1: a call of look has no id": request(USER, asks(" "), result(" ")),
    "message 3: the call id 'a' was used before": request(USER, asks("a"), result("a"), asks("a"), result("a")),
    "message 1: the call id 'a' was used before": request(USER, asks("a", "a"), result("a"), result("a")),
    "no result of 'b' in its place": request(USER, asks("a", "b"), result("a"), USER, result("b")),
    "no result of 'a' in its place": request(USER, asks("a")),
    "message 2: a result of 'b' where 'a' has its place": request(USER, asks("a", "b"), result("b"), result("a")),
    "message 3: a result of 'a', which is no open call": request(USER, asks("a"), result("a"), result("a")),
    "message 2: a result of 'x', which is no open call": request(USER, ANSWER, result("x")),
    "message 2: the result is of lock, the call of look": request(USER, asks("a"), result("a", "lock")),
    "message 1: the tool name 'a b' is not": request(USER, asks("a", name="a b"), result("a", "a b")),
    "message 1: the tool name '' is not": request(USER, asks("a", name=""), result("a", "")),
    "message 1: the arguments of look are not JSON": request(USER, asks("a", arguments='{"a'), result("a")),
    "NaN is no JSON number": request(USER, asks("a", arguments='{"a": NaN}'), result("a")),
    "the arguments of look are not JSON: 'utf-8'": request(USER, asks("a", arguments='{"a": "\\ud800"}'), result("a")),
    "message 1: the arguments of look are not an object": request(USER, asks("a", arguments="[]"), result("a")),
    "message 0: the text is not valid Unicode": request(UserMessage(text="a\ud800")),
    "message 2: the text is not valid Unicode": request(USER, asks("a"), result("a", text="\udfff")),
    "the instructions: the text is not valid Unicode": request(USER, instructions="\ud800"),
    "two tools are named look": request(USER, tools=(spec(), spec())),
    "the tools: the tool name 'look up' is not": request(USER, tools=(spec("look up"),)),
    "the parameters of look are not the schema of an object": request(USER, tools=(spec(kind="array"),)),
}


@pytest.mark.parametrize("reason", INVALID)
def test_an_invalid_request_is_refused_with_its_reason(reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_request(INVALID[reason])

    assert reason in caught.value.reason
    assert caught.value.kind == "permanent"
